package plaintext

import (
	"strings"
	"unicode"
)

// Name returns a person's or a place's name as it may stand in front of what is
// said: in one line, without characters that nobody sees or that turn the order of
// a line around, and without the colons and square brackets by which a reader, or
// a model, tells a name from a text. It may be empty.
func Name(text string) string {
	text = strings.Map(func(r rune) rune {
		switch r {
		case ':', '：', '﹕', '∶', '꞉', '︰', '׃', '\t', '\n':
			return ' '
		case '[', '【', '［':
			return '('
		case ']', '】', '］':
			return ')'
		case '\u200d': // joins the parts of an emoji
			return r
		}
		if Steers(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, Clean(text))
	return strings.Join(strings.Fields(strings.Trim(text, "\u200d")), " ")
}
