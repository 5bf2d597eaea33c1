package discord

import (
	"regexp"
	"strings"

	"parley/channels/markdown"
)

var delimiterRow = regexp.MustCompile(`^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$`)

// tableLines is how many of the lines are a table that begins with the first,
// or 0. A table ends at a line without a bar, or in another quote.
func tableLines(lines []string) int {
	if len(lines) < 2 || !strings.Contains(lines[0], "|") {
		return 0
	}
	depth, end := markdown.QuoteMarks(lines[0])
	below, at := markdown.QuoteMarks(lines[1])
	delimiters := strings.TrimSpace(lines[1][at:])
	if below != depth || !strings.Contains(delimiters, "|") || !delimiterRow.MatchString(delimiters) ||
		len(cells(lines[0][end:])) != len(cells(delimiters)) {
		return 0
	}
	n := 2
	for n < len(lines) && strings.Contains(lines[n], "|") {
		if d, _ := markdown.QuoteMarks(lines[n]); d != depth {
			break
		}
		n++
	}
	return n
}

// writeTable writes the lines of a table as an aligned code block, since
// Discord has no tables.
func writeTable(b *strings.Builder, lines []string) {
	quote, _ := cutQuote(lines[0])
	var rows [][]string
	var alignments []markdown.Alignment
	for i, line := range lines {
		_, end := markdown.QuoteMarks(line)
		row := cells(line[end:])
		if i == 1 {
			alignments = readAlignments(row)
			continue
		}
		for i, cell := range row {
			row[i] = cellText(cell)
		}
		rows = append(rows, row)
	}
	b.WriteString(quote + fenceMark + "\n")
	for line := range strings.Lines(markdown.Table(rows, alignments) + "\n") {
		b.WriteString(quote + partMarks(line))
	}
	b.WriteString(quote + fenceMark)
}

// cells splits a row at the bars that no backslash escapes.
func cells(row string) []string {
	row = strings.TrimPrefix(strings.TrimSpace(row), "|")
	var cells []string
	from := 0
	for i := 0; i < len(row); i++ {
		switch row[i] {
		case '\\':
			i++
		case '|':
			cells = append(cells, strings.TrimSpace(row[from:i]))
			from = i + 1
		}
	}
	if rest := strings.TrimSpace(row[from:]); rest != "" || len(cells) == 0 {
		cells = append(cells, rest)
	}
	return cells
}

func readAlignments(delimiters []string) []markdown.Alignment {
	alignments := make([]markdown.Alignment, len(delimiters))
	for i, d := range delimiters {
		switch left, right := strings.HasPrefix(d, ":"), strings.HasSuffix(d, ":"); {
		case left && right:
			alignments[i] = markdown.AlignCenter
		case right:
			alignments[i] = markdown.AlignRight
		}
	}
	return alignments
}

var (
	lineBreak  = regexp.MustCompile(`(?i)<br */?>`)
	strongText = regexp.MustCompile(`(^|[^\w*])\*\*([^\s*](?:[^*]*[^\s*])?)\*\*($|[^\w*])`)
	struckText = regexp.MustCompile(`(^|[^\w~])~~([^\s~](?:[^~]*[^\s~])?)~~($|[^\w~])`)
)

// cellText removes from a cell the marks that a code block would show.
func cellText(cell string) string {
	if !strings.ContainsAny(cell, "*~`<|\t") {
		return cell
	}
	cell = strings.ReplaceAll(strings.ReplaceAll(cell, `\|`, "|"), "\t", " ")
	return mapSpans(cell, func(text string) string {
		text = lineBreak.ReplaceAllString(text, " ")
		text = strongText.ReplaceAllString(text, "$1$2$3")
		return struckText.ReplaceAllString(text, "$1$2$3")
	}, func(span, inner string) string { return strings.TrimSpace(inner) })
}
