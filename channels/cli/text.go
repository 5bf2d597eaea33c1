package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/plaintext"

	"golang.org/x/text/width"
)

// tabWidth is what the line editor shows for a tab.
const tabWidth = 4

// entered makes text that a person has typed fit to be stored: valid UTF-8, "\n"
// line ends, no control characters. It keeps the characters that set the reading
// order.
func entered(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
}

// runeWidth returns the columns that the line editor assumes for a rune.
// Sequences that a terminal joins to one glyph count as their parts, so a sum is
// never below what the screen shows.
func runeWidth(r rune) int {
	switch {
	case r == '\t':
		return tabWidth
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cc, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// textWidth returns the columns of a line, without its SGR sequences.
func textWidth(s string) int {
	n := 0
	for len(s) > 0 {
		if l := sgrLen(s); l > 0 {
			s = s[l:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		n += runeWidth(r)
		s = s[size:]
	}
	return n
}

// sgrLen returns the length of the colour sequence that s begins with, or 0.
func sgrLen(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case c == 'm':
			return i + 1
		case (c < '0' || c > '9') && c != ';' && c != ':':
			return 0
		}
	}
	return 0
}

// onlySGR removes what a terminal would obey, but for line ends, tabs and colour
// sequences.
func onlySGR(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		if n := sgrLen(s); n > 0 {
			b.WriteString(s[:n])
			s = s[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		if r == '\n' || r == '\t' || !plaintext.Steers(r) {
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// wrap breaks lines so that none is wider than limit columns, at any column.
// Colour sequences have no width and continue on the next line.
func wrap(s string, limit int) []string {
	limit = max(limit, 2*tabWidth)
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		lines = append(lines, wrapLine(line, limit)...)
	}
	return lines
}

func wrapLine(s string, limit int) []string {
	var lines []string
	start, col := 0, 0
	for i := 0; i < len(s); {
		if n := sgrLen(s[i:]); n > 0 {
			i += n
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		w := runeWidth(r)
		if col+w > limit {
			lines = append(lines, s[start:i])
			start, col = i, 0
		}
		col += w
		i += size
	}
	return append(lines, s[start:])
}

// layout breaks the line being edited into rows of the screen, behind a prompt of the given
// columns, and returns the row and the column of the cursor at pos.
func layout(prompt int, text []rune, pos, columns int) (rows []string, row, col int) {
	var b strings.Builder
	at := prompt
	next := func() {
		rows = append(rows, b.String())
		b.Reset()
		at = 0
	}
	for i, r := range text {
		w := runeWidth(r)
		if r != '\n' && at+w > columns {
			next()
		}
		if i == pos {
			row, col = len(rows), at
		}
		switch {
		case r == '\n':
			next()
		case r == '\t':
			b.WriteString(strings.Repeat(" ", w))
		case !plaintext.Steers(r):
			b.WriteRune(r)
		}
		if r != '\n' {
			at += w
		}
	}
	if at+1 > columns { // the cursor has no room behind the text
		next()
	}
	if rows = append(rows, b.String()); pos >= len(text) {
		row, col = len(rows)-1, at
	}
	return rows, row, min(col, columns-1)
}

// shorten returns the first lines of a text, at most maxRunes of it.
func shorten(s string, maxLines, maxRunes int) string {
	cut := false
	if lines := strings.SplitN(s, "\n", maxLines+1); len(lines) > maxLines {
		s, cut = strings.Join(lines[:maxLines], "\n"), true
	}
	n := 0
	for i := range s {
		if n == maxRunes {
			s, cut = s[:i], true
			break
		}
		n++
	}
	if cut {
		s = strings.TrimRight(s, " \n") + " …"
	}
	return s
}
