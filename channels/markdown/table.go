package markdown

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Alignment is how a column of a table is aligned.
type Alignment int

const (
	AlignLeft Alignment = iota
	AlignRight
	AlignCenter
)

const (
	columnGap = "  "
	maxColumn = 40 // cells that are wider stick out, instead of padding all the others
)

// Table returns rows of cells as aligned text, for platforms that have a
// monospaced font but no tables. The first row is the header, with a rule below
// it. Columns are left aligned by default. East Asian wide characters count as
// two columns, as in terminals. The text does not end with a line end.
func Table(rows [][]string, alignments []Alignment) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], min(uniseg.StringWidth(cell), maxColumn))
		}
	}
	var b strings.Builder
	for i, row := range rows {
		b.WriteString(tableLine(row, widths, alignments))
		if i == 0 {
			b.WriteString(rule(widths))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func tableLine(row []string, widths []int, alignments []Alignment) string {
	var b strings.Builder
	for i, cell := range row {
		if i > 0 {
			b.WriteString(columnGap)
		}
		left, right := 0, max(0, widths[i]-uniseg.StringWidth(cell))
		if i < len(alignments) {
			switch alignments[i] {
			case AlignRight:
				left, right = right, 0
			case AlignCenter:
				left, right = right/2, right-right/2
			}
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
