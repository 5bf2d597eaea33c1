// Package markup knows what every renderer of markdown must know of a text
// before it parses it.
package markup

import "strings"

// Limits beyond which no person writes, and parsing takes far longer than the
// length of a text explains.
const (
	maxNesting = 32     // quotes and lists that begin on one line
	maxLinks   = 1_000  // links that begin in one paragraph
	maxCells   = 50_000 // cells of a table, whose short rows are filled up to its header
)

// Costly reports whether markdown is built so that a parser needs time that
// grows with the square of its length. Such a text is better shown as it is.
func Costly(markdown string) bool {
	var block struct{ lines, columns, links int } // up to an empty line
	for line := range strings.Lines(markdown) {
		if strings.TrimSpace(line) == "" {
			block.lines, block.columns, block.links = 0, 0, 0
			continue
		}
		block.lines++
		block.columns = max(block.columns, 1+strings.Count(line, "|"))
		block.links += strings.Count(line, "](")
		hasTable := block.columns > 1
		if nesting(line) > maxNesting || block.links > maxLinks || hasTable && block.lines*block.columns > maxCells {
			return true
		}
	}
	return false
}

// nesting is how many quotes and lists begin on a line.
func nesting(line string) int {
	depth := 0
	for i := range len(line) {
		b := line[i]
		if strings.IndexByte(" \t>-+*.)0123456789", b) < 0 {
			break
		}
		if b == '>' || i > 0 && (b == ' ' || b == '\t') && strings.IndexByte("-+*.)", line[i-1]) >= 0 {
			depth++
		}
	}
	return depth
}
