package cli

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

const (
	minColumn = 8 // columns to which a column of a table may be squeezed
	rowBreak  = 3 // columns of what stands between two cells
)

// table lays out a table in columns, and wraps the cells where it would be wider
// than the screen. Where that is not enough, it becomes a list of records.
func (r *renderer) table(n *east.Table) {
	rows := r.rows(n)
	if len(rows) == 0 || len(rows[0]) == 0 {
		return
	}
	widths := columnWidths(rows)
	fixed := len(r.fixed.widths) == len(widths) && r.fixed.table == tableAt(n)
	if fixed {
		widths = slices.Clone(r.fixed.widths)
	}
	if room := r.room() - rowBreak*(len(widths)-1); !squeeze(widths, room) && len(rows) > 1 {
		if fixed {
			r.shown = len(r.lines)
		}
		r.records(rows)
		return
	}
	for i, row := range rows {
		if fixed && i == 1 {
			r.shown = len(r.lines)
		}
		r.row(row, widths, n.Alignments)
		if i == 0 {
			r.rule(widths)
		}
	}
}

// tableColumns are the widths that the columns of a table have, whatever its rows are.
type tableColumns struct {
	table  int // as tableAt returns it
	widths []int
}

// tableAt returns the offset of a table's first cell that is not empty.
func tableAt(n ast.Node) int {
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			if lines := cell.Lines(); lines.Len() > 0 {
				return lines.At(0).Start
			}
		}
	}
	return 0
}

func (r *renderer) rows(table ast.Node) (rows [][]prose) {
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		rows = append(rows, r.cells(row))
	}
	return rows
}

func (r *renderer) cells(row ast.Node) []prose {
	var looks look
	if row.Kind() == east.KindTableHeader {
		looks = bold
	}
	var cells []prose
	for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
		cells = append(cells, r.inlines(cell, looks))
	}
	return cells
}

// columnWidths returns the width of each column without wrapping.
func columnWidths(rows [][]prose) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row[:min(len(row), len(widths))] {
			for line := range strings.SplitSeq(cell.String(), "\n") {
				widths[i] = max(widths[i], prose{{text: line}}.columns(), 1)
			}
		}
	}
	return widths
}

// squeeze narrows the widest columns until all fit in room, and reports
// whether they do.
func squeeze(widths []int, room int) bool {
	for limit := max(room, minColumn); limit >= minColumn; limit-- {
		sum := 0
		for i, w := range widths {
			widths[i] = min(w, limit)
			sum += widths[i]
		}
		if sum <= room {
			return true
		}
	}
	return false
}

func (r *renderer) row(cells []prose, widths []int, alignments []east.Alignment) {
	columns := make([][]prose, len(widths))
	height := 0
	for i := range widths {
		if i < len(cells) {
			columns[i] = cells[i].wrap(widths[i])
		}
		height = max(height, len(columns[i]))
	}
	for y := range height {
		var line prose
		for i, width := range widths {
			if i > 0 {
				line = append(line, span{" │ ", dim})
			}
			var cell prose
			if y < len(columns[i]) {
				cell = columns[i][y]
			}
			line = append(line, align(cell, width, alignments[i])...)
		}
		r.line(line.trimRight().paint(r.palette))
	}
}

// align pads a line of a cell to width.
func align(cell prose, width int, how east.Alignment) prose {
	after := max(width-cell.columns(), 0)
	before := 0
	switch how {
	case east.AlignRight:
		before, after = after, 0
	case east.AlignCenter:
		before, after = after/2, after-after/2
	}
	line := append(prose{{text: strings.Repeat(" ", before)}}, cell...)
	return append(line, span{text: strings.Repeat(" ", after)})
}

func (r *renderer) rule(widths []int) {
	parts := make([]string, len(widths))
	for i, width := range widths {
		parts[i] = strings.Repeat("─", width)
	}
	r.line(r.palette.dim(strings.Join(parts, "─┼─")))
}

// records lays out each row as lines of a column's name and its cell.
func (r *renderer) records(rows [][]prose) {
	for i, row := range rows[1:] {
		if i > 0 {
			r.apart()
		}
		for j, cell := range row[:min(len(row), len(rows[0]))] {
			if cell.String() == "" {
				continue
			}
			line := append(slices.Clone(rows[0][j]), span{text: ": "})
			r.prose(append(line, cell...))
		}
	}
}
