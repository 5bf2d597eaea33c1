package telegram

import "strings"

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
