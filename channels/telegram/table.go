package telegram

import (
	"strings"

	"github.com/rivo/uniseg"
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"parley/channels"
)

const (
	columnGap = "  "
	maxColumn = 40 // cells that are wider stick out, instead of padding all the others
)

// table writes a table as aligned text, since Telegram has none.
func (w *writer) table(n *east.Table) {
	w.marked = false
	w.begin(w.gap)
	rows := w.cells(n)
	widths := make([]int, len(n.Alignments))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], min(uniseg.StringWidth(cell), maxColumn))
		}
	}
	var b strings.Builder
	for i, row := range rows {
		b.WriteString(tableLine(row, widths, n.Alignments))
		if i == 0 {
			b.WriteString(rule(widths))
		}
	}
	from := len(w.out)
	w.style = style{pre: true}
	w.write(strings.TrimRight(b.String(), "\n"))
	if len(w.out) > from {
		w.code = append(w.code, channels.Range{From: from, To: len(w.out)})
	}
}

// cells are the texts of a table's cells, the header row first.
func (w *writer) cells(n *east.Table) [][]string {
	var rows [][]string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil && len(cells) < len(n.Alignments); cell = cell.NextSibling() {
			cells = append(cells, w.cell(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

func (w *writer) cell(n ast.Node) string {
	inner := &writer{src: w.src, gap: 1}
	inner.inlines(n)
	return oneLine(string(inner.out))
}

func tableLine(row []string, widths []int, alignments []east.Alignment) string {
	var b strings.Builder
	for i, cell := range row {
		if i > 0 {
			b.WriteString(columnGap)
		}
		left, right := 0, max(0, widths[i]-uniseg.StringWidth(cell))
		switch alignments[i] {
		case east.AlignRight:
			left, right = right, 0
		case east.AlignCenter:
			left, right = right/2, right-right/2
		}
		b.WriteString(strings.Repeat(" ", left) + cell + strings.Repeat(" ", right))
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

func rule(widths []int) string {
	cells := make([]string, len(widths))
	for i, width := range widths {
		cells[i] = strings.Repeat("-", max(width, 1))
	}
	return strings.Join(cells, columnGap) + "\n"
}
