package transcript

import "strings"

// OpenFence is the fence that closes the code block in which a Markdown text
// ends, and "" when it ends in none. The rules are those of CommonMark 0.31,
// section 4.5 (https://spec.commonmark.org/0.31.2/#fenced-code-blocks).
func OpenFence(text string) string {
	open := ""
	for line := range strings.Lines(text) {
		fence, rest := fenceOf(line)
		switch {
		case fence == "":
		case open == "":
			if fence[0] == '~' || !strings.Contains(rest, "`") {
				open = fence
			}
		case strings.HasPrefix(fence, open) && strings.TrimSpace(rest) == "":
			open = ""
		}
	}
	return open
}

// fenceOf gives the three or more backticks or tildes with which a line begins,
// and what follows them.
func fenceOf(line string) (fence, rest string) {
	inner := strings.TrimLeft(line, " ")
	if len(line)-len(inner) > 3 || inner == "" || inner[0] != '`' && inner[0] != '~' {
		return "", ""
	}
	rest = strings.TrimLeft(inner, inner[:1])
	if fence = inner[:len(inner)-len(rest)]; len(fence) < 3 {
		return "", ""
	}
	return fence, rest
}
