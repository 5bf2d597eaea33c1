package cli

import (
	"strings"

	"parley/markup"
)

// firstBlock is the offset at which the second top-level block of a markdown
// text begins, so that what is before it can be rendered by itself; 0 when the
// text is one block. It errs towards long blocks: a list is one, with
// everything indented under it.
func firstBlock(md string) int {
	var (
		fence    string // the run of ` or ~ that opened the code block we are in
		blank    bool   // the line before was empty
		started  bool
		listItem bool // the block began as a list
	)
	for at := 0; at < len(md); {
		end := strings.IndexByte(md[at:], '\n')
		if end < 0 {
			end = len(md)
		} else {
			end += at + 1
		}
		line := strings.TrimRight(md[at:end], " \t\n")
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		if started && fence == "" && blank && line != "" && !indented && !(listItem && isListItem(line)) {
			return at
		}
		if !started && line != "" {
			started, listItem = true, isListItem(line)
		}
		if code := strings.TrimLeft(line, " \t"); fence == "" {
			fence, _, _ = markup.OpeningFence(code)
		} else if markup.IsClosingFence(code, fence) {
			fence = ""
		}
		blank = line == ""
		at = end
	}
	return 0
}

func isListItem(line string) bool {
	if rest := strings.TrimLeft(line, "0123456789"); rest != line {
		return strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")
	}
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "+ ")
}
