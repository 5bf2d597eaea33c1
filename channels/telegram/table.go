package telegram

import (
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"parley/channels/markdown"
	"parley/plaintext"
)

// table writes a table as aligned text, since Telegram has no tables.
func (w *writer) table(n *east.Table) {
	w.marked = false
	w.begin(w.gap)
	from := len(w.out)
	w.style = style{pre: true}
	w.write(markdown.Table(w.cells(n), alignments(n)))
	if len(w.out) > from {
		w.code = append(w.code, markdown.Range{From: from, To: len(w.out)})
	}
}

func alignments(n *east.Table) []markdown.Alignment {
	to := make([]markdown.Alignment, len(n.Alignments))
	for i, a := range n.Alignments {
		switch a {
		case east.AlignRight:
			to[i] = markdown.AlignRight
		case east.AlignCenter:
			to[i] = markdown.AlignCenter
		}
	}
	return to
}

// cells returns the texts of a table's cells, the header row first.
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
	return plaintext.OneLine(string(inner.out))
}
