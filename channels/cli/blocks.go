package cli

import "strings"

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
		fence = fenceAfter(fence, strings.TrimLeft(line, " \t"))
		blank = line == ""
		at = end
	}
	return 0
}

// fenceAfter is the fence that is open after a line, "" for none.
func fenceAfter(open, line string) string {
	run := fenceRun(line)
	switch {
	case open == "" && run != "" && !(run[0] == '`' && strings.Contains(line[len(run):], "`")):
		return run
	case open != "" && run == line && strings.HasPrefix(run, open):
		return ""
	}
	return open
}

// fenceRun is the run of at least three ` or ~ that line begins with.
func fenceRun(line string) string {
	if line == "" || (line[0] != '`' && line[0] != '~') {
		return ""
	}
	run := line[:len(line)-len(strings.TrimLeft(line, line[:1]))]
	if len(run) < 3 {
		return ""
	}
	return run
}

func isListItem(line string) bool {
	if rest := strings.TrimLeft(line, "0123456789"); rest != line {
		return strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")
	}
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "+ ")
}
