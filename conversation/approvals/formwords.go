package approvals

import (
	"fmt"
	"net/url"
	"slices"
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
	return q.inParagraphs(
		fmt.Sprintf("❓ **The tool server %s asks** while it runs %s:\n```text\n%s\n```", Quote(q.Form.Server), q.ToolName(), visible(shortened(plaintext.Clean(q.Form.Message), shownMessage))),
		q.link(), q.fieldList(), q.nextField(),
		fmt.Sprintf("%s It is open for %s. Never enter a password or a key here: the server is told all that you answer.", q.endWords(), q.Limit()))
}

// NextMessage returns the message that follows the answer to a field of a form: how it was understood, and what is
// asked next. field counts from 0.
func (q Question) NextMessage(field int) Message {
	f := q.Form.Fields[field]
	return q.inParagraphs(
		fmt.Sprintf("%s: %s. Of the %d fields of question %d, %d are answered.", Quote(f.Label()), Quote(f.show(q.Answers[f.Name])), len(q.Form.Fields), q.ID, len(q.Answers)),
		q.nextField(), q.endWords())
}

// inParagraphs returns a message of the paragraphs that are not empty, with the answers that buttons give.
func (q Question) inParagraphs(paragraphs ...string) Message {
	said := slices.DeleteFunc(paragraphs, func(text string) bool { return text == "" })
	return Message{Text: strings.Join(said, "\n\n"), Actions: q.formActions()}
}

// nextField says which field is asked for next and how it is answered, "" when all are answered.
func (q Question) nextField() string {
	i := q.next()
	if i < 0 {
		return ""
	}
	f := q.Form.Fields[i]
	text := "**" + Quote(f.Label()) + "**"
	if !f.Required {
		text += " (may be left out)"
	}
	if f.About != "" {
		text += " – " + Quote(plaintext.ShortLine(f.About, 200))
	}
	return fmt.Sprintf("%s: %s. Answer with `/answer %d %d YOUR ANSWER`; in a private chat, just write it.", text, Quote(f.Takes()), q.ID, i+1)
}

// endWords says which commands end the question.
func (q Question) endWords() string {
	send := ""
	if len(q.Missing()) == 0 {
		what := "sends the answers to"
		switch {
		case q.Form.URL != "":
			what = "agrees, for"
		case len(q.Form.Fields) == 0:
			what = "agrees, to"
		}
		send = fmt.Sprintf("`/approve %d` %s %s, ", q.ID, what, Quote(q.Form.Server))
	}
	return fmt.Sprintf("%s`/deny %d` refuses, `/deny %d cancel` dismisses the question.", send, q.ID, q.ID)
}

// link returns the address that people shall open, and where it leads, "" for none.
func (q Question) link() string {
	if q.Form.URL == "" {
		return ""
	}
	u, err := url.Parse(q.Form.URL)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("Open this page of **%s**, if you trust it: <%s>", Quote(u.Hostname()), u.String())
}

// fieldList lists the fields with their answers so far, where there are several.
func (q Question) fieldList() string {
	if len(q.Form.Fields) < 2 {
		return ""
	}
	var lines []string
	for i, f := range q.Form.Fields[:min(len(q.Form.Fields), shownFields)] {
		said := "–"
		if value, given := q.Answers[f.Name]; given {
			said = Quote(f.show(value))
		}
		lines = append(lines, fmt.Sprintf("%d. %s: %s", i+1, Quote(f.Label()), said))
	}
	list := strings.Join(lines, "\n")
	if more := len(q.Form.Fields) - shownFields; more > 0 {
		list += fmt.Sprintf("\n\n… and %d more", more)
	}
	return list
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
