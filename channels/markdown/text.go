package markdown

import (
	"strings"
	"unicode"
)

// Nothing stands for a text that shows nothing, which platforms refuse.
const Nothing = "—"

// Visible reports whether a text shows anything besides white space, format
// characters, and letters that are blank.
func Visible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		switch r {
		case '\u00AD', '\u034F', '\u115F', '\u1160', '\u17B4', '\u17B5', '\u2800', '\u3164', '\uFFA0':
			return false
		}
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Variation_Selector, r)
	})
}
