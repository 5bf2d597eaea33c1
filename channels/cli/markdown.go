package cli

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"

	"parley/markup"
)

const (
	maxMeasure = 110      // columns beyond which prose is hard to read
	minMeasure = 20       // columns that prose gets in any terminal
	maxRender  = 64 << 10 // bytes beyond which markdown is shown as it is
	maxDepth   = 24       // levels of nesting beyond which the same is done: their indents leave no room for text
)

// typesetter renders answers for the terminal. It uses the terminal's own colours,
// which are readable on the background that the user has chosen.
type typesetter struct {
	palette palette
	parser  *markup.Parser
}

func newTypesetter(p palette) *typesetter {
	return &typesetter{p, markup.NewParser(goldmark.New(goldmark.WithExtensions(extension.GFM, markup.Math{})))}
}

// render returns the lines of src, which is clean, for a terminal of the given
// columns, without blank lines at both ends. It does not wrap code. It returns
// what is too long, too deep or too costly to parse as it is.
func (m *typesetter) render(src string, columns int) []string {
	lines, _ := m.renderWith(src, columns, tableColumns{})
	return lines
}

// renderWith is render with the columns that one table has. shown is the number of lines
// before that table's rows, -1 if there are no rows.
func (m *typesetter) renderWith(src string, columns int, fixed tableColumns) (lines []string, shown int) {
	if strings.TrimSpace(src) == "" {
		return nil, -1
	}
	defer func() {
		// Hostile markdown must not end the chat.
		if recover() != nil {
			lines, shown = strings.Split(src, "\n"), -1
		}
	}()
	if len(src) > maxRender {
		return strings.Split(src, "\n"), -1
	}
	doc, err := m.parser.Parse([]byte(src))
	if err != nil || tooDeep(doc) {
		return strings.Split(src, "\n"), -1
	}
	r := &renderer{
		src:     []byte(src),
		palette: m.palette,
		width:   max(min(columns-1, maxMeasure), minMeasure),
		fixed:   fixed,
		shown:   -1,
	}
	r.blocks(doc, true)
	return trimLines(r.lines), r.shown
}

// tableBehind returns the first table of src that ends behind an offset. ok is false
// where there is none.
func (m *typesetter) tableBehind(src string, at int) (found tablePlace, ok bool) {
	doc, err := m.parser.Parse([]byte(src))
	if err != nil || tooDeep(doc) {
		return found, false
	}
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Kind() != east.KindTable {
			return ast.WalkContinue, nil
		}
		if found = m.placeOf(n, src); found.to > at {
			ok = true
			return ast.WalkStop, nil
		}
		return ast.WalkSkipChildren, nil
	})
	return found, ok
}

// tablePlace is where a table is in a text.
type tablePlace struct {
	columns  tableColumns // columns, with room for cells that are longer than those so far
	rows, to int          // offsets of its rows, which are behind its first two lines, and of its end
}

func (m *typesetter) placeOf(table ast.Node, src string) tablePlace {
	r := &renderer{src: []byte(src), palette: m.palette}
	place := tablePlace{columns: tableColumns{table: tableAt(table), widths: columnWidths(r.rows(table))}}
	for i, width := range place.columns.widths {
		place.columns.widths[i] += width/2 + rowBreak
	}
	place.rows = lineEnd(src, lineEnd(src, place.columns.table))
	last := place.rows
	_ = ast.Walk(table, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Kind() == east.KindTableCell && n.Lines().Len() > 0 {
			last = max(last, n.Lines().At(0).Stop)
		}
		return ast.WalkContinue, nil
	})
	place.to = lineEnd(src, last)
	return place
}

// lineEnd returns the offset behind the line that an offset is in.
func lineEnd(src string, at int) int {
	if end := strings.IndexByte(src[at:], '\n'); end >= 0 {
		return at + end + 1
	}
	return len(src)
}

func tooDeep(doc ast.Node) bool {
	depth, deepest := 0, 0
	_ = ast.Walk(doc, func(_ ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			depth--
			return ast.WalkContinue, nil
		}
		depth++
		deepest = max(deepest, depth)
		return ast.WalkContinue, nil
	})
	return deepest > maxDepth
}

// trimLines removes the blank lines at both ends.
func trimLines(lines []string) []string {
	for len(lines) > 0 && textWidth(lines[0]) == 0 {
		lines = lines[1:]
	}
	for len(lines) > 0 && textWidth(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}
