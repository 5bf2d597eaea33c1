package channels

import (
	"strings"

	"parley/plaintext"
)

// maxQuote is how much of a message that is replied to stands above the reply,
// in characters.
const maxQuote = 1000

// InReplyTo returns what stands above a reply for the model: who wrote the message
// that it replies to, and its beginning. An empty text is one that is not shown.
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

// Forwarded returns the line above a text that was forwarded; from is who wrote
// it, "" where the platform does not say.
func Forwarded(from string) string {
	if from == "" {
		return "[forwarded]\n"
	}
	return "[forwarded from " + from + "]\n"
}
