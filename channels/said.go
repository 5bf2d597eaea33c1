package channels

import (
	"strings"

	"parley/plaintext"
)

// maxQuote is how much of a message that is replied to stands above the reply,
// in characters.
const maxQuote = 1000

// InReplyTo returns the lines that the model is shown above a reply: who wrote the message that
// is replied to, and the beginning of its text. Without a text only the author is named.
func InReplyTo(who, text string) string {
	text = strings.TrimSpace(plaintext.Clean(text))
	if runes := []rune(text); len(runes) > maxQuote {
		text = strings.TrimSpace(string(runes[:maxQuote])) + " …"
	}
	if text == "" {
		return "[in reply to " + who + "]\n"
	}
	return "[in reply to " + who + ":]\n> " + strings.ReplaceAll(text, "\n", "\n> ") + "\n\n"
}

// Forwarded returns the line above a forwarded text. from is the author's name, "" if the
// platform does not give it.
func Forwarded(from string) string {
	if from == "" {
		return "[forwarded]\n"
	}
	return "[forwarded from " + from + "]\n"
}
