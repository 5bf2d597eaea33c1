package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Nothing stands for a text that shows nothing, which platforms refuse.
const Nothing = "—"

// Clean makes text one that platforms take: valid UTF-8, "\n" for line ends,
// and no control characters but tabs.
func Clean(text string) string {
	if isClean(text) {
		return text
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
}

// OneLine is a name without line ends and control characters.
func OneLine(name string) string { return strings.Join(strings.Fields(Clean(name)), " ") }

func isClean(text string) bool {
	for _, r := range text {
		if r != '\n' && r != '\t' && (r < ' ' || r >= 0x7F && (r < 0xA0 || r == '\u2028' || r == '\u2029' || r == utf8.RuneError)) {
			return false
		}
	}
	return true
}

// Visible reports whether a text shows anything: not only white space,
// format characters, and the letters that are blank.
func Visible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		switch r {
		case '\u00AD', '\u034F', '\u115F', '\u1160', '\u17B4', '\u17B5', '\u2800', '\u3164', '\uFFA0':
			return false
		}
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Variation_Selector, r)
	})
}
