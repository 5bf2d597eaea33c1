package transcript

import (
	"fmt"
	"io"
	"strings"
	"time"

	"parley/conversation"
	"parley/markup"
	"parley/plaintext"
)

// markdownWriter is the Writer of Markdown. It leaves out hidden messages, and removes
// characters that would control a terminal.
type markdownWriter struct {
	out   io.Writer
	key   conversation.Key
	place string

	begun bool   // whether a conversation was begun
	day   string // the day of the previous message
}

func (w *markdownWriter) Conversation(c conversation.Conversation) error {
	gap := ""
	if w.begun {
		gap = "\n"
	}
	w.begun, w.day = true, ""
	title := plaintext.OneLine(c.Title)
	if title == "" {
		title = "Untitled conversation"
	}
	where := "`" + plaintext.OneLine(string(w.key)) + "`"
	if w.place != "" {
		where = plaintext.OneLine(w.place) + ", " + where
	}
	_, err := fmt.Fprintf(w.out, "%s# %s\n\n%s · %s · %s to %s\n", gap, title, where, count(c.Messages, "message"), when(c.CreatedAt), when(c.UpdatedAt))
	return err
}

func when(t time.Time) string { return t.Format("2006-01-02 15:04") }

func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (w *markdownWriter) Message(r conversation.Message) error {
	if r.Hidden() {
		return nil
	}
	var b strings.Builder
	if day := r.At.Format("Monday, 2 January 2006"); day != w.day {
		w.day = day
		fmt.Fprintf(&b, "\n## %s\n", day)
	}
	if r.Role == conversation.RoleTool {
		writeQuote(&b, r.Content)
	} else {
		writeMessage(&b, r)
	}
	_, err := io.WriteString(w.out, b.String())
	return err
}

func (w *markdownWriter) Close() error { return nil }

// writeMessage writes a message that is not a tool's result, with its pictures and tool calls.
func writeMessage(b *strings.Builder, r conversation.Message) {
	fmt.Fprintf(b, "\n**%s** · %s", speaker(r), r.At.Format("15:04"))
	if r.Stopped {
		b.WriteString(" · stopped")
	}
	if words := r.FinishReason.Words(); words != "" {
		b.WriteString(" · " + words)
	}
	b.WriteString("\n")
	text := strings.TrimSpace(plaintext.ForTerminal(r.Content))
	if fence := markup.OpenFence(text); fence != "" {
		text += "\n" + fence // otherwise the code block would go on in the next message
	}
	if text != "" {
		fmt.Fprintf(b, "\n%s\n", text)
	}
	for _, image := range r.Images {
		fmt.Fprintf(b, "\n[image %s]\n", plaintext.OneLine(image.Name))
	}
	for _, call := range r.ToolCalls {
		fmt.Fprintf(b, "\n> `%s` %s\n", plaintext.OneLine(call.Name), plaintext.OneLine(call.Arguments))
	}
}

func speaker(m conversation.Message) string {
	switch {
	case m.Role == conversation.RoleAssistant:
		return "Assistant"
	case m.Role == conversation.RoleSystem:
		return "System"
	case m.Sender.Name != "":
		return plaintext.OneLine(m.Sender.Name)
	case m.Sender.ID != "":
		return "User " + plaintext.OneLine(m.Sender.ID)
	}
	return "You"
}

// writeQuote writes a tool's result as a block quote.
func writeQuote(b *strings.Builder, text string) {
	b.WriteString("\n")
	for line := range strings.Lines(strings.TrimSpace(plaintext.ForTerminal(text)) + "\n") {
		b.WriteString(strings.TrimRight("> "+line, " \n") + "\n")
	}
}
