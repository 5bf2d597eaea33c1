package telegram

import "strings"

const maxDepth = 32 // quotes and lists that begin on one line

// plain is text without markup.
func plain(text string) rich {
	return rich{text: text, runs: []run{{end: len(text)}}}
}

// isPlain reports whether markdown is the same without markup, which most
// short answers are. In doubt it says no.
func isPlain(markdown string) bool {
	if strings.ContainsAny(markdown, "*_`[]<>&#~|\\\t") {
		return false
	}
	for line := range strings.Lines(markdown) {
		switch digits := strings.TrimLeft(line, "0123456789"); {
		case line[0] == ' ' || line[0] == '-' || line[0] == '+' || line[0] == '=':
			return false
		case len(digits) < len(line) && digits != "" && (digits[0] == '.' || digits[0] == ')'):
			return false
		}
	}
	return true
}

// isDeep reports whether a line nests more quotes and lists than anyone would
// write. The time to parse those grows with the square of their number.
func isDeep(markdown string) bool {
	for line := range strings.Lines(markdown) {
		depth := 0
		for i := range len(line) {
			b := line[i]
			if !strings.ContainsRune(" \t>-+*.)0123456789", rune(b)) {
				break
			}
			if b == '>' || i > 0 && (b == ' ' || b == '\t') && strings.IndexByte("-+*.)", line[i-1]) >= 0 {
				depth++
			}
		}
		if depth > maxDepth {
			return true
		}
	}
	return false
}
