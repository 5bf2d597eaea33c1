package markup

import "strings"

// The lines of fenced code blocks, as CommonMark 0.31 has them in section 4.5:
// https://spec.commonmark.org/0.31.2/#fenced-code-blocks

// OpeningFence returns the mark of a line that opens a fenced code block, three or
// more backticks or tildes, and the info string behind it. The line comes without
// its indentation. ok is false for any other line.
func OpeningFence(line string) (mark, info string, ok bool) {
	if line == "" || line[0] != '`' && line[0] != '~' {
		return "", "", false
	}
	info = strings.TrimLeft(line, line[:1])
	mark = line[:len(line)-len(info)]
	if len(mark) < 3 || mark[0] == '`' && strings.Contains(info, "`") {
		return "", "", false
	}
	return mark, info, true
}

// IsClosingFence reports whether a line closes the code block that mark has opened.
func IsClosingFence(line, mark string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(mark) && strings.Trim(line, mark[:1]) == ""
}

// maxFenceIndent is how many spaces may stand before a fence outside of lists and
// quotes.
const maxFenceIndent = 3

// OpenFence returns the mark of the code block in which a text ends, and "" when
// it ends in none. It takes a fence in a list or a quote for text.
func OpenFence(text string) string {
	open := ""
	for line := range strings.Lines(text) {
		inner := strings.TrimLeft(line, " ")
		if len(line)-len(inner) > maxFenceIndent {
			continue
		}
		if open != "" {
			if IsClosingFence(inner, open) {
				open = ""
			}
		} else if mark, _, ok := OpeningFence(inner); ok {
			open = mark
		}
	}
	return open
}
