package tools

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/plaintext"
)

const (
	recallTokens = 8000
	frameTokens  = 100 // of these, for the notices of a page
	toolTokens   = 100 // to which tool results are cut when a page is too long

	wholeMessage = 20_000 // the most bytes of a message that are shown
	wholeHit     = 1500   // bytes up to which a hit is shown whole; of a longer one, the snippet is shown
	besideHit    = 300    // the most bytes of a message beside a hit
)

// page is the result of one call.
type page struct {
	head   string
	blocks []block
	foot   string
}

// block is a part of a page, mostly one turn.
type block struct {
	at    time.Time
	head  string
	lines []line
}

// line is one message of a block.
type line struct {
	text string
	tool bool // a tool's result
}

func blockOf(head string, messages []conversation.Message, limit int) block {
	b := block{head: head}
	for i, m := range messages {
		if i == 0 {
			b.at = m.At
			b.head += ", " + when(m.At)
		}
		b.lines = append(b.lines, linesOf(m, limit)...)
	}
	return b
}

// linesOf returns the lines of a message, shortened to about limit bytes.
func linesOf(m conversation.Message, limit int) (lines []line) {
	who := string(m.Role)
	switch {
	case m.Role == conversation.RoleTool:
		who = "result of " + oneLine(m.ToolName, 60)
	case m.Sender.Name != "":
		who += " " + oneLine(m.Sender.Name, 60)
	}
	if text := strings.TrimSpace(m.Content); text != "" {
		lines = append(lines, line{text: who + ": " + shorten(text, limit), tool: m.Role == conversation.RoleTool})
	}
	for _, image := range m.Images {
		lines = append(lines, line{text: who + ": [image " + oneLine(image.Name, 60) + "]"})
	}
	for _, call := range m.ToolCalls {
		lines = append(lines, line{text: who + " calls " + oneLine(call.Name, 60) + " " + oneLine(call.Arguments, limit)})
	}
	return lines
}

// fit returns the text of the page within recallTokens. It cuts tool results first,
// then leaves out the oldest blocks, and cuts the last one that is left.
func (p page) fit(counter Counter) string {
	room := recallTokens - frameTokens
	p.head = cut(counter, p.head, room/2)
	room -= counter.Text(p.head) + counter.Text(p.foot)
	sizes, total := p.measure(counter)
	if total > room {
		for i := range p.blocks {
			p.blocks[i].cutResults(counter)
		}
		sizes, total = p.measure(counter)
	}
	left := 0
	for ; total > room && len(p.blocks) > 1; left++ {
		oldest := p.oldest()
		total -= sizes[oldest]
		p.blocks, sizes = slices.Delete(p.blocks, oldest, oldest+1), slices.Delete(sizes, oldest, oldest+1)
	}
	var b strings.Builder
	b.WriteString(p.head)
	for _, block := range p.blocks {
		text := block.text()
		if total > room {
			text = cut(counter, text, room)
		}
		b.WriteString(text)
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n\n[The oldest %d of these did not fit; ask for less.]", left)
	}
	if p.foot != "" {
		b.WriteString("\n\n" + p.foot)
	}
	return b.String()
}

// measure returns the tokens of each block and of all together.
func (p page) measure(counter Counter) (sizes []int, total int) {
	sizes = make([]int, len(p.blocks))
	for i, b := range p.blocks {
		sizes[i] = counter.Text(b.text()) + 1
		total += sizes[i]
	}
	return sizes, total
}

func (p page) oldest() int {
	oldest := 0
	for i, b := range p.blocks {
		if b.at.Before(p.blocks[oldest].at) {
			oldest = i
		}
	}
	return oldest
}

func (b block) cutResults(counter Counter) {
	for i, l := range b.lines {
		if l.tool {
			b.lines[i].text = cut(counter, l.text, toolTokens)
		}
	}
}

// text returns a block with a blank line before it. One that has only its head stands
// without the blank line.
func (b block) text() string {
	if len(b.lines) == 0 {
		return "\n" + b.head
	}
	var text strings.Builder
	text.WriteString("\n\n" + b.head)
	for _, l := range b.lines {
		text.WriteString("\n" + l.text)
	}
	return text.String()
}

// cut returns a text without its middle when it has too many tokens.
func cut(counter Counter, text string, tokens int) string {
	const notice = "\n[…]\n"
	if len(text) <= tokens || counter.Text(text) <= tokens { // a token is at least a byte
		return text
	}
	head, tail := counter.Cut(text, max(tokens-counter.Text(notice), 0))
	return head + notice + tail
}

// shorten returns about the first limit bytes of a text.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.TrimSpace(text[:limit]) + " …"
}

// oneLine returns the beginning of a text, of about limit bytes, in one line.
func oneLine(text string, limit int) string { return plaintext.OneLine(shorten(text, limit)) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return oneLine(line, 160)
}

func titleOf(title string) string {
	if title == "" {
		return "Untitled"
	}
	return quoted(oneLine(title, 100))
}

func when(t time.Time) string { return t.Format("2006-01-02 15:04") }

func quoted(text string) string { return "“" + text + "”" }

func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}
