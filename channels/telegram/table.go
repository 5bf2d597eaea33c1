package telegram

import (
	"strings"

	"github.com/rivo/uniseg"
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"parley/channels/markdown"
	"parley/plaintext"
)

// maxTable is the widest line of a table, in columns, that a phone shows without
// breaking it: about 40 of a monospaced font fit a screen of 360 points.
const maxTable = 40

// table writes a table as aligned text, since Telegram has no tables. One that is too
// wide for a phone, or has links, which aligned text can't have, is written row by row.
func (w *writer) table(n *east.Table) {
	w.marked = false
	text := markdown.Table(w.cells(n), alignments(n))
	if tableWidth(text) > maxTable || w.hasLinks(n) {
		w.rows(n)
		return
	}
	w.begin(w.gap)
	from := len(w.out)
	w.style = style{pre: true}
	w.write(text)
	if len(w.out) > from {
		w.code = append(w.code, markdown.Range{From: from, To: len(w.out)})
	}
}

// hasLinks reports whether cells below the head have links whose addresses the texts of the cells do
// not show.
func (w *writer) hasLinks(n *east.Table) bool {
	for row := n.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			inner := &writer{src: w.src, gap: 1}
			inner.inlines(cell)
			from := 0
			for _, r := range inner.runs {
				if r.style.href != "" && r.style.href != string(inner.out[from:r.end]) {
					return true
				}
				from = r.end
			}
		}
	}
	return false
}

func tableWidth(text string) (widest int) {
	for line := range strings.Lines(text) {
		widest = max(widest, uniseg.StringWidth(strings.TrimRight(line, "\n")))
	}
	return widest
}

// rows writes a table with a paragraph for each row: the first cell, and each of the
// others on a line with the head of its column. Empty cells are left out. A table
// without rows shows its head.
func (w *writer) rows(n *east.Table) {
	outer := w.style
	header := n.FirstChild()
	if header.NextSibling() == nil {
		w.begin(w.gap)
		w.write(strings.Join(w.cells(n)[0], " · "))
		return
	}
	heads := w.cells(n)[0]
	for row := header.NextSibling(); row != nil; row = row.NextSibling() {
		w.begin(max(w.gap, 2))
		first, i := true, 0
		for cell := row.FirstChild(); cell != nil && i < len(heads); cell, i = cell.NextSibling(), i+1 {
			if !markdown.Visible(w.cell(cell)) {
				continue
			}
			if !first {
				w.begin(1)
			}
			first = false
			if w.style.bold = outer.bold || i == 0; i > 0 && heads[i] != "" {
				w.write(heads[i] + ": ")
			}
			w.inlines(cell)
			w.style = outer
		}
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
