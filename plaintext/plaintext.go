// Package plaintext makes texts that others wrote safe to send, to show, and to
// put into a line.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns text as every platform takes it: valid UTF-8, "\n" for line ends,
// and no control characters but tabs.
func Clean(text string) string {
	if isClean(text) {
		return text
	}
	return clean(text, unicode.IsControl)
}

// ForTerminal returns text as Clean does, and without any other character that a
// terminal obeys instead of showing it, see Steers.
func ForTerminal(text string) string { return clean(text, Steers) }

// OneLine returns text in one line, without what ForTerminal removes, and with single
// spaces between its words.
func OneLine(text string) string { return strings.Join(strings.Fields(ForTerminal(text)), " ") }

// ShortLine returns text as OneLine does, cut to limit runes, the last of which is then "…".
func ShortLine(text string, limit int) string {
	if len(text) > limit*8 {
		text = strings.ToValidUTF8(text[:limit*8], "")
	}
	text = OneLine(text)
	if runes := []rune(text); len(runes) > limit {
		return strings.TrimSpace(string(runes[:limit-1])) + "…"
	}
	return text
}

// Steers reports whether a terminal obeys a character instead of showing it: a
// control character, of either set (C0, C1), or one that turns the order of a
// line around (https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters).
// The marks that only say which way a neighbour reads are none of these.
func Steers(r rune) bool {
	return unicode.IsControl(r) || '\u202A' <= r && r <= '\u202E' || '\u2066' <= r && r <= '\u2069'
}

// clean makes text valid UTF-8 with "\n" for line ends, and drops what unwanted
// reports but for tabs.
func clean(text string, unwanted func(rune) bool) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\n' || r == '\t':
			return r
		case unwanted(r):
			return -1
		}
		return r
	}, text)
}

func isClean(text string) bool {
	for _, r := range text {
		if r != '\n' && r != '\t' && (r < ' ' || r >= 0x7F && (r < 0xA0 || r == '\u2028' || r == '\u2029' || r == utf8.RuneError)) {
			return false
		}
	}
	return true
}
