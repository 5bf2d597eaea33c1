package cli

import (
	"strings"

	"parley/channels/markdown"
)

// This file finds the places at which the markdown of a growing answer can be split, so that its
// upper part can be rendered once and scroll away.

// head is text that is put in front of the rest of an answer when the rest is rendered, so that the
// rest is rendered in its context. The lines of the head are on the screen already and not printed again.
type head struct {
	text    string
	columns tableColumns // columns of the table in which text ends
}

// firstBlock returns the offset at which the second top-level block of a markdown
// text begins, so that the text before it can be rendered by itself; 0 if the
// text is one block. It errs towards long blocks: a list is one, with
// everything indented under it.
func firstBlock(md string) int {
	var (
		fences   = markdown.Fences(md)
		blank    bool // the line before was empty
		started  bool
		listItem bool // the block began as a list
		at       int
	)
	for whole := range strings.Lines(md) {
		line := strings.TrimRight(whole, " \t\n")
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		for len(fences) > 0 && fences[0].To < at {
			fences = fences[1:]
		}
		inCode := len(fences) > 0 && fences[0].From < at
		if started && !inCode && blank && line != "" && !indented && !(listItem && isListItem(line)) {
			return at
		}
		if !started && line != "" {
			started, listItem = true, isListItem(line)
		}
		blank = line == ""
		at += len(whole)
	}
	return 0
}

func isListItem(line string) bool {
	if rest := strings.TrimLeft(line, "0123456789"); rest != line {
		return strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")
	}
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "+ ")
}

// codeAt returns the offset behind the opening line of the fenced code block in which a markdown
// text ends, and the indentation of the block's lines. The offset is 0 if the text ends outside of code.
func codeAt(md string) (behind int, indent string) {
	fences := markdown.Fences(md)
	if len(fences) == 0 {
		return 0, ""
	}
	if last := fences[len(fences)-1]; last.Closing == len(md) {
		return last.Body, last.Indent
	}
	return 0, ""
}

// openCode returns the head for the rest of a markdown text that ends with a whole line of a fenced
// code block, so that the rest is rendered as code: everything up to the block's first line, and one
// line of code, which keeps the blank lines after it. It returns "" for other texts.
func openCode(md string) string {
	behind, indent := codeAt(md)
	if behind == 0 || !strings.HasSuffix(md, "\n") {
		return ""
	}
	return md[:behind] + indent + "x\n"
}

// headsFor returns the possible heads for the rest of a markdown text that has the head before, so
// that the rest is rendered as what it is: code, the paragraph of a list or quote, the item of a
// nested list. The head "" is for a rest that needs no context.
func headsFor(before, md, rest string) []string {
	md = before + md
	heads := []string{openCode(md), before}
	line := strings.LastIndexByte(md, '\n') + 1
	lead := line + markdown.Containers(md[line:])
	switch {
	case heads[0] != "":
	case line == len(md): // the rest begins a line; in an item of a list nothing of the items before is open
		if words := strings.TrimLeft(rest, " "); words != rest && isListItem(words) {
			heads = append(heads, md)
		}
	case lead > line: // the rest goes on behind a line break, as it does without the marks of list and quote
		heads = append(heads, md[line:lead]+"x\\\n", md[:lead]+"x\\\n")
	}
	return heads
}

// cutsOf returns the offsets at which a block with a head may be split: after white space, and in
// code only after line ends.
func cutsOf(head, block string) []int {
	fences := markdown.Fences(head + block)
	var cuts []int
	for i, r := range block {
		at := len(head) + i
		for len(fences) > 0 && fences[0].To < at {
			fences = fences[1:]
		}
		inCode := len(fences) > 0 && fences[0].From <= at
		if end := i + 1; (r == '\n' || r == ' ' && !inCode) && end < len(block) {
			cuts = append(cuts, end)
		}
	}
	return cuts
}
