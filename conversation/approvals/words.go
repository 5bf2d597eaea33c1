package approvals

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"parley/conversation"
	"parley/plaintext"
)

// Message is what the chat is told of a question.
type Message struct {
	Text    string // markdown
	Actions []conversation.Action
}

// shownArguments is how many characters of the arguments a question shows: a message of Discord has 2,000.
const shownArguments = 1300

// Message returns the message that asks the question. It ends with the commands that answer it, since not every platform
// has buttons.
func (q Question) Message() Message {
	if q.Form != nil {
		return q.formMessage()
	}
	shown, cut := q.Show(shownArguments)
	words := fmt.Sprintf("`/approve %d` or `/deny %d`", q.ID, q.ID)
	if q.Rememberable {
		words = fmt.Sprintf("`/approve %d`, `/approve %d always` or `/deny %d`", q.ID, q.ID, q.ID)
	}
	m := Message{Actions: q.Actions()}
	if cut {
		m.Actions = append(m.Actions, conversation.Action{Label: "Show all", Command: fmt.Sprintf("/approvals %d", q.ID)})
		shown += fmt.Sprintf("\nNot all of it is shown: `/approvals %d` does.\n", q.ID)
	}
	m.Text = fmt.Sprintf("❓ **May I do this?** %s\nAnswer %s within %s.", shown, words, q.Limit())
	return m
}

// Actions returns the answers that can be given by a button.
func (q Question) Actions() []conversation.Action {
	if q.Form != nil {
		return q.formActions()
	}
	actions := []conversation.Action{
		{Label: "Allow", Command: fmt.Sprintf("/approve %d", q.ID)},
		{Label: "Deny", Command: fmt.Sprintf("/deny %d", q.ID)},
	}
	if q.Rememberable {
		actions = append(actions, conversation.Action{Label: "Always allow here", Command: fmt.Sprintf("/approve %d always", q.ID)})
	}
	return actions
}

// Show returns the call as a block of code, which nothing in it can end, below what has changed of its tool. cut reports whether arguments of more than most
// characters are shown in part.
func (q Question) Show(most int) (text string, cut bool) {
	arguments := []rune(ShowArguments(q.Arguments))
	if q.Changes != "" {
		text = fmt.Sprintf("\n⚠️ Its server has changed this tool since it was allowed: %s.", q.Changes)
		most = max(most-len(text), 300)
	}
	if n := len(arguments); n > most {
		begin, end := arguments[:most*2/3], arguments[n-most/3:]
		left := fmt.Sprintf("\n\n[… %d characters are not shown here …]\n\n", n-len(begin)-len(end))
		arguments, cut = append(append(append([]rune{}, begin...), []rune(left)...), end...), true
	}
	return fmt.Sprintf("%s%s\n```json\n%s\n```", q.ToolName(), text, string(arguments)), cut
}

// ToolName returns the name of the tool as code.
func (q Question) ToolName() string { return QuoteTool(q.Tool) }

// QuoteTool returns the name of a tool as code.
func QuoteTool(name string) string {
	return "`" + strings.ReplaceAll(plaintext.OneLine(name), "`", "") + "`"
}

// ShowArguments returns JSON with a line for each value. What can't be seen, or changes how the rest is seen, is written as
// in JSON by its number, and so are backticks: nothing ends the block of code that it stands in.
func ShowArguments(arguments string) string {
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(arguments), "", "  ") != nil {
		indented.Reset()
		indented.WriteString(arguments)
	}
	return visible(indented.String())
}

// visible returns a text in which all characters can be seen. Backticks are written by their number, too.
func visible(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		if r == '\n' || r != '`' && isSeen(r) {
			b.WriteRune(r)
			continue
		}
		if r > 0xffff {
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// isSeen reports whether a character is visible, or a space. Letters that look empty and the
// selectors that can hide a text are not.
func isSeen(r rune) bool {
	switch {
	case r == 0x115f, r == 0x1160, r == 0x2800, r == 0x3164, r == 0xffa0, 0xe0100 <= r && r <= 0xe01ef:
		return false
	}
	return unicode.IsPrint(r)
}

// Limit returns how long the question is open in all, in words.
func (q Question) Limit() string { return span(q.ExpiresAt.Sub(q.AskedAt)) }

// Left returns for how long the question is still open, in words.
func (q Question) Left(now time.Time) string { return span(q.ExpiresAt.Sub(now)) }

// span returns a duration as people say it.
func span(d time.Duration) string {
	for _, unit := range []struct {
		long time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		switch n := int64(d.Round(time.Second) / unit.long); {
		case n == 1:
			return "1 " + unit.name
		case n > 1:
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return "a second"
}
