package discord

import (
	"fmt"
	"strings"

	"parley/plaintext"
)

// contents returns a line in brackets for each content of a message that is neither text nor a file. The cards
// below a message of a person are previews of its links, which the text has already.
func (in *intake) contents(m *message, p *place) string {
	text := ""
	for _, s := range m.Stickers {
		text = joinLines(text, "[sticker "+plaintext.OneLine(s.Name)+"]")
	}
	if m.Poll != nil {
		text = joinLines(text, m.Poll.shown())
	}
	if m.author().Bot || m.Content == "" {
		for _, e := range m.Embeds {
			text = joinLines(text, in.withNames(e.shown(), m, p))
		}
	}
	return text
}

// shown returns the question and the answers, with their votes.
func (q *poll) shown() string {
	kind := "poll"
	if q.Results.Final {
		kind = "closed poll"
	}
	text := fmt.Sprintf("[%s: %s]", kind, q.Question.shown())
	for _, a := range q.Answers {
		text += "\n- " + a.Media.shown()
		for _, c := range q.Results.Counts {
			switch {
			case c.Answer != a.ID || c.Count == 0:
			case c.Count == 1:
				text += " (1 vote)"
			default:
				text += fmt.Sprintf(" (%d votes)", c.Count)
			}
		}
	}
	return text
}

func (t pollText) shown() string { return plaintext.OneLine(t.Emoji.Name + " " + t.Text) }

// shown returns the card as text. It is "" for one without any.
func (e embed) shown() string {
	title := plaintext.OneLine(e.Title)
	if title != "" && e.URL != "" {
		title += " (" + plaintext.OneLine(e.URL) + ")"
	}
	text := joinLines(plaintext.OneLine(e.Author.Name), title)
	text = joinLines(text, strings.TrimSpace(e.Description))
	for _, f := range e.Fields {
		text = joinLines(text, plaintext.OneLine(f.Name)+": "+strings.TrimSpace(f.Value))
	}
	return joinLines(text, plaintext.OneLine(e.Footer.Text))
}
