package tools

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/plaintext"
)

const (
	recallTokens      = 8000 // most tokens of a result
	leastRecallTokens = 300  // least room of a result in tokens, however small the window is
	toolTokens        = 100  // tokens to which the results of tools are cut when a page is too long

	wholeMessage = 20_000 // the most bytes of a message that are shown
	wholeHit     = 1500   // bytes up to which a hit is shown whole; of a longer one, the snippet is shown
	besideHit    = 300    // the most bytes of a message beside a hit
)

// page is the result of one call.
type page struct {
	blocks      []block
	oldestFirst bool // where there is no room for all blocks, the first are left out instead of the last

	// frame returns what stands above and below the blocks when so many are left out.
	frame func(left int) (head, foot string)
}

// block is a part of a page, mostly one turn.
type block struct {
	head   string
	lines  []line
	tokens int // 0 = not counted yet
}

// line is one message of a block.
type line struct {
	text string
	tool bool // the message is the result of a tool call
}

func blockOf(head string, messages []conversation.Message, limit int) block {
	b := block{head: head}
	for i, m := range messages {
		if i == 0 {
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
	text := strings.TrimSpace(m.Content)
	if m.Role == conversation.RoleTool && m.ToolName == RecallName {
		text = "[an earlier lookup]"
	}
	if text != "" {
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

// fit returns the text of the page within so many tokens. It cuts tool results first, then
// leaves out blocks, and cuts the last one that is left.
func (p page) fit(counter Counter, tokens int) string {
	total := p.tokens(counter, 0)
	if total > tokens {
		for i := range p.blocks {
			p.blocks[i].cutResults(counter)
		}
		total = p.tokens(counter, 0)
	}
	left := 0
	for total > tokens && len(p.blocks) > 1 {
		if p.oldestFirst {
			p.blocks = p.blocks[1:]
		} else {
			p.blocks = p.blocks[:len(p.blocks)-1]
		}
		left++
		total = p.tokens(counter, left)
	}
	head, foot := p.frame(left)
	if total > tokens {
		head = cut(counter, head, tokens/2)
		if len(p.blocks) > 0 {
			room := tokens - counter.Text(head) - counter.Text(foot) - cutReserve
			p.blocks = []block{{head: strings.TrimPrefix(cut(counter, p.blocks[0].text(), room), "\n")}}
		}
	}
	var b strings.Builder
	b.WriteString(head)
	for _, block := range p.blocks {
		b.WriteString(block.text())
	}
	if foot != "" {
		b.WriteString("\n\n" + foot)
	}
	return b.String()
}

// cutReserve is for the tokens that a cut text has more than it was cut to.
const cutReserve = 20

// tokens returns about how many tokens the page has when so many blocks are left out, at
// least as many as it will have.
func (p *page) tokens(counter Counter, left int) int {
	head, foot := p.frame(left)
	total := counter.Text(head) + counter.Text(foot) + 2
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.tokens == 0 {
			b.tokens = counter.Text(b.text()) + 1
		}
		total += b.tokens
	}
	return total
}

func (b *block) cutResults(counter Counter) {
	b.tokens = 0
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

// footOf returns the last line of a page, which says how to see more, or "" if there is
// nothing to say.
func footOf(more ...string) string {
	if len(more) == 0 {
		return ""
	}
	return "[More: " + strings.Join(more, "; ") + "]"
}

func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}
