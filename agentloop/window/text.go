package window

import (
	"strings"
	"unicode"

	"parley/markup"
)

// OneLine returns text in one line, without control characters and of at most limit
// runes.
func OneLine(text string, limit int) string {
	if len(text) > limit*8 {
		text = strings.ToValidUTF8(text[:limit*8], "")
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if runes := []rune(text); len(runes) > limit {
		return strings.TrimSpace(string(runes[:limit-1])) + "…"
	}
	return text
}

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
