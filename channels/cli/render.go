package cli

import (
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"parley/markup"
)

const (
	maxRule = 40 // columns of a thematic break
	minRoom = 10 // columns that text gets however deep it is nested

	boxWidth = 2 // columns of a task's box and the space behind it
)

// renderer walks a document's blocks and lays them out as lines.
type renderer struct {
	src     []byte
	palette palette
	width   int
	fixed   tableColumns // columns of a table whose upper rows are on the screen already
	shown   int          // number of lines above the rows of that table; -1: there is no such table
	lines   []string

	first, rest string  // what the next line begins with, and the lines after it
	gap         *string // a blank line that comes before the next line, if one comes
}

// room returns the columns that are left for text.
func (r *renderer) room() int { return max(r.width-textWidth(r.rest), minRoom) }

func (r *renderer) line(s string) {
	if r.gap != nil && len(r.lines) > 0 {
		r.lines = append(r.lines, strings.TrimRight(*r.gap, " "))
	}
	r.gap = nil
	if s == "" {
		r.first = strings.TrimRight(r.first, " ")
	}
	r.lines = append(r.lines, r.first+s)
	r.first = r.rest
}

// nest lays out what body does behind first on its first line and rest on the
// others. A body without lines is an empty one.
func (r *renderer) nest(first, rest string, body func()) {
	outer, before := r.rest, len(r.lines)
	r.first, r.rest = r.first+first, r.rest+rest
	if body(); len(r.lines) == before {
		r.line("")
	}
	r.first, r.rest = outer, outer
}

func (r *renderer) blocks(parent ast.Node, apart bool) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if apart && n != parent.FirstChild() {
			r.apart()
		}
		r.block(n)
	}
}

func (r *renderer) apart() {
	gap := r.rest
	r.gap = &gap
}

func (r *renderer) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		r.heading(n)
	case *ast.Blockquote:
		bar := r.palette.dim("│") + " "
		r.nest(bar, bar, func() { r.blocks(n, true) })
	case *ast.List:
		r.list(n)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		r.code(string(n.Lines().Value(r.src)))
	case *east.Table:
		r.table(n)
	case *markup.FormulaBlock: // a terminal shows none, so formulas stay as they were written
		for line := range strings.SplitSeq(n.Source(r.src), "\n") {
			r.line(untab(line))
		}
	case *ast.ThematicBreak:
		r.line(r.palette.dim(strings.Repeat("─", min(r.room(), maxRule))))
	case *ast.HTMLBlock:
		html := string(n.Lines().Value(r.src))
		if n.HasClosure() {
			html += string(n.ClosureLine.Value(r.src))
		}
		r.prose(prose{{text: untab(strings.TrimRight(html, "\n"))}})
	case *ast.LinkReferenceDefinition:
	default: // paragraphs
		r.prose(r.inlines(n, 0))
	}
}

func (r *renderer) prose(p prose) {
	for _, line := range p.wrap(r.room()) {
		r.line(line.paint(r.palette))
	}
}

// heading keeps its signs when there is no other way to tell it from text.
func (r *renderer) heading(n *ast.Heading) {
	var p prose
	if !r.palette {
		p = prose{{text: strings.Repeat("#", n.Level) + " "}}
	}
	looks := bold
	if n.Level <= 2 {
		looks |= accent
	}
	r.prose(append(p, r.inlines(n, looks)...))
}

func (r *renderer) code(text string) {
	r.nest("  ", "  ", func() {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			r.line(prose{{untab(line), accent}}.paint(r.palette))
		}
	})
}

func untab(s string) string { return strings.ReplaceAll(s, "\t", strings.Repeat(" ", tabWidth)) }

func (r *renderer) list(n *ast.List) {
	number, digits := n.Start, len(strconv.Itoa(n.Start+n.ChildCount()-1))
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if !n.IsTight && item != n.FirstChild() {
			r.apart()
		}
		marker := "• "
		switch {
		case n.IsOrdered():
			label := strconv.Itoa(number)
			marker = strings.Repeat(" ", digits-len(label)) + label + string(n.Marker) + " "
			number++
		case isTask(item):
			marker = "" // its box is part of the text
		}
		hang := strings.Repeat(" ", max(textWidth(marker), boxWidth))
		r.nest(marker, hang, func() { r.blocks(item, !n.IsTight) })
	}
}

func isTask(item ast.Node) bool {
	first := item.FirstChild()
	if first == nil || first.FirstChild() == nil {
		return false
	}
	_, ok := first.FirstChild().(*east.TaskCheckBox)
	return ok
}
