package window

import (
	"strings"

	"parley/markup"
)

// Excerpt returns the first limit runes of a text, with its lines. A code block that
// is cut is closed, so that it does not swallow what follows.
func Excerpt(text string, limit int) string {
	text = strings.TrimSpace(text)
	if len(text) > limit { // else it has no more runes than that
		if runes := []rune(text); len(runes) > limit {
			text = strings.TrimSpace(string(runes[:limit])) + " …"
		}
	}
	if fence := markup.OpenFence(text); fence != "" {
		text += "\n" + fence
	}
	return text
}

// JoinLines returns a text with another one below it.
func JoinLines(text, more string) string {
	if text == "" || more == "" {
		return text + more
	}
	return text + "\n" + more
}
