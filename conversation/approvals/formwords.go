package approvals

import (
	"fmt"
	"net/url"
	"strings"

	"parley/conversation"
	"parley/plaintext"
)

const (
	shownMessage = 900 // characters of what a server says that its question shows
	shownFields  = 6   // fields that a question lists; further ones are asked for one by one
	shownChoices = 16  // choices of a field that have a button
)

// formMessage returns the message that asks what the form of a question asks for.
func (q Question) formMessage() Message {
	var b strings.Builder
	server := Quote(q.Form.Server)
	fmt.Fprintf(&b, "❓ **The tool server %s asks** while it runs %s:\n```text\n%s\n```\n", server, q.ToolName(), visible(shortened(plaintext.Clean(q.Form.Message), shownMessage)))
	q.writeLink(&b)
	q.writeFields(&b)
	if i := q.next(); i >= 0 {
		f := q.Form.Fields[i]
		need := ""
		if !f.Required {
			need = " (may be left out)"
		}
		fmt.Fprintf(&b, "**%s**%s: %s. `/answer %d %d YOUR ANSWER`\n", Quote(f.Label()), need, Quote(f.Takes()), q.ID, i+1)
		if f.About != "" {
			fmt.Fprintf(&b, "%s\n", Quote(plaintext.ShortLine(f.About, 200)))
		}
	}
	fmt.Fprintf(&b, "%s refuses, `/deny %d cancel` dismisses the question. It is open for %s. ", q.sendWords(server), q.ID, q.Limit())
	b.WriteString("Never enter a password or a key here: the server is told all that you answer.")
	return Message{Text: b.String(), Actions: q.formActions()}
}

// sendWords returns how the answers are sent, up to the command that refuses.
func (q Question) sendWords(server string) string {
	if len(q.Missing()) > 0 {
		return fmt.Sprintf("`/deny %d`", q.ID)
	}
	what := "sends the answers to"
	switch {
	case q.Form.URL != "":
		what = "agrees, for"
	case len(q.Form.Fields) == 0:
		what = "agrees, to"
	}
	return fmt.Sprintf("`/approve %d` %s %s, `/deny %d`", q.ID, what, server, q.ID)
}

// writeLink writes the address that people shall open, and where it leads.
func (q Question) writeLink(b *strings.Builder) {
	if q.Form.URL == "" {
		return
	}
	if u, err := url.Parse(q.Form.URL); err == nil {
		fmt.Fprintf(b, "Open this page of **%s**, if you trust it: <%s>\n", Quote(u.Hostname()), u.String())
	}
}

// writeFields writes the fields with their answers so far, where there are several.
func (q Question) writeFields(b *strings.Builder) {
	if len(q.Form.Fields) < 2 {
		return
	}
	for i, f := range q.Form.Fields {
		if i == shownFields {
			fmt.Fprintf(b, "… and %d more\n", len(q.Form.Fields)-i)
			break
		}
		said := "–"
		if value, given := q.Answers[f.Name]; given {
			said = Quote(f.show(value))
		}
		fmt.Fprintf(b, "%d. %s: %s\n", i+1, Quote(f.Label()), said)
	}
}

// formActions returns the answers to a form that can be given by a button.
func (q Question) formActions() (actions []conversation.Action) {
	if i := q.next(); i >= 0 {
		f, command := q.Form.Fields[i], fmt.Sprintf("/answer %d %d ", q.ID, i+1)
		if f.Kind == YesNo {
			actions = append(actions, conversation.Action{Label: "Yes", Command: command + "yes"}, conversation.Action{Label: "No", Command: command + "no"})
		}
		for n, choice := range f.Choices[:min(len(f.Choices), shownChoices)] {
			if f.Kind == OneOf {
				actions = append(actions, conversation.Action{Label: choice.Label(), Command: fmt.Sprintf("%s#%d", command, n+1)})
			}
		}
	}
	if len(q.Missing()) == 0 {
		label := "Send"
		if len(q.Form.Fields) == 0 {
			label = "Accept"
		}
		actions = append(actions, conversation.Action{Label: label, Command: fmt.Sprintf("/approve %d", q.ID)})
	}
	return append(actions,
		conversation.Action{Label: "Decline", Command: fmt.Sprintf("/deny %d", q.ID)},
		conversation.Action{Label: "Cancel", Command: fmt.Sprintf("/deny %d cancel", q.ID)})
}

// ShowAnswers returns the answers to a form as people read them, a line for each.
func (q Question) ShowAnswers() string {
	var b strings.Builder
	for _, f := range q.Form.Fields {
		if value, given := q.Answers[f.Name]; given {
			fmt.Fprintf(&b, "\n- %s: %s", Quote(f.Label()), Quote(f.show(value)))
		}
	}
	return b.String()
}

// ServerName returns the name of the server as code.
func (q Question) ServerName() string { return Quote(q.Form.Server) }

// Quote returns a short text as code, which nothing in it can end.
func Quote(text string) string {
	return "`" + visible(strings.ReplaceAll(plaintext.OneLine(text), "`", "'")) + "`"
}

// shortened returns a text cut to some characters.
func shortened(text string, most int) string {
	if all := []rune(text); len(all) > most {
		return string(all[:most-1]) + "…"
	}
	return text
}
