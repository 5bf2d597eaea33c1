package cli

import (
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// look is a set of ways in which text stands out.
type look uint8

const (
	bold look = 1 << iota
	dim
	italic
	underline
	strike
	accent // a colour: code, and the headings of the upper levels
)

// looksSGR are the parameters of SGR for each look, in the order of the bits.
// Of colours only the terminal's first 16 are used.
var looksSGR = [...]string{"1", "2", "3", "4", "9", "36"}

func (l look) sgr() string {
	var on []string
	for i, code := range looksSGR {
		if l&(1<<i) != 0 {
			on = append(on, code)
		}
	}
	return strings.Join(on, ";")
}

// span is text of one look, without control characters but "\n".
type span struct {
	text string
	look look
}

// prose is text to be wrapped.
type prose []span

func (p prose) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.text)
	}
	return b.String()
}

// columns returns the width of one line of prose on a terminal, where a
// grapheme cluster is one glyph.
func (p prose) columns() int { return uniseg.StringWidth(p.String()) }

// paint renders one line of prose. Each span resets its style itself, so that lines
// stand alone.
func (p prose) paint(c palette) string {
	var b strings.Builder
	for _, s := range p {
		if code := s.look.sgr(); code != "" {
			b.WriteString(c.sgr(code, s.text))
		} else {
			b.WriteString(s.text)
		}
	}
	return b.String()
}

// wrap breaks prose to lines of at most limit columns where Unicode's line
// breaking (UAX #14) allows it, and within words that do not fit a line.
// There is always a line.
func (p prose) wrap(limit int) []prose {
	text := p.String()
	whole := p.commands(limit)
	var ends []int // offsets at which lines end
	col, state := 0, -1
	for at, rest := 0, text; rest != ""; {
		var word string
		word, rest, _, state = uniseg.FirstLineSegmentInString(rest, state)
		for rest != "" && !strings.HasSuffix(word, "\n") && (isSlash(word) || whole.contain(at+len(word))) {
			var more string
			more, rest, _, state = uniseg.FirstLineSegmentInString(rest, state)
			word += more
		}
		width := uniseg.StringWidth(strings.TrimRight(word, " \n"))
		if col > 0 && col+width > limit {
			ends, col = append(ends, at), 0
		}
		if width > limit {
			cuts, last := chop(word, limit)
			for _, cut := range cuts {
				ends = append(ends, at+cut)
			}
			col = last
		} else {
			col += uniseg.StringWidth(word)
		}
		at += len(word)
		if strings.HasSuffix(word, "\n") {
			ends, col = append(ends, at), 0
		}
	}
	if n := len(ends); n == 0 || ends[n-1] < len(text) {
		ends = append(ends, len(text))
	}
	return p.split(ends)
}

// isSlash reports whether a piece of a line is the slash that begins a command or a
// path. Unicode allows a line to end behind it.
func isSlash(piece string) bool {
	piece = piece[strings.LastIndexByte(piece, ' ')+1:]
	return strings.HasSuffix(piece, "/") && !strings.ContainsFunc(piece, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// ranges are the offsets of text that stays in one line: from, to, from, to, …
type ranges []int

// contain reports whether a line must not end at the offset.
func (r ranges) contain(at int) bool {
	for i := 0; i < len(r); i += 2 {
		if r[i] < at && at < r[i+1] {
			return true
		}
	}
	return false
}

// commands returns where code is, such as "/history #2", that is short enough to stay in
// one line.
func (p prose) commands(limit int) ranges {
	var found ranges
	at := 0
	for _, s := range p {
		if s.look&accent != 0 && s.look&bold == 0 && strings.HasPrefix(s.text, "/") && uniseg.StringWidth(s.text) <= limit {
			found = append(found, at, at+len(s.text))
		}
		at += len(s.text)
	}
	return found
}

// chop returns the offsets at which a word has to be broken, and the columns of
// what comes after the last.
func chop(word string, limit int) (cuts []int, col int) {
	state := -1
	for at, rest := 0, word; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if col+width > limit && strings.TrimSpace(cluster) != "" {
			cuts, col = append(cuts, at), 0
		}
		col += width
		at += len(cluster)
	}
	return cuts, col
}

// split returns the lines that end at the given offsets, without white space at
// their ends.
func (p prose) split(ends []int) []prose {
	lines := make([]prose, 0, len(ends))
	p = slices.Clone(p)
	at := 0
	for _, end := range ends {
		var line prose
		for len(p) > 0 && at < end {
			s := p[0]
			n := min(len(s.text), end-at)
			line = append(line, span{s.text[:n], s.look})
			at += n
			if p[0].text = s.text[n:]; p[0].text == "" {
				p = p[1:]
			}
		}
		lines = append(lines, line.trimRight())
	}
	return lines
}

func (p prose) trimRight() prose {
	for n := len(p); n > 0; n-- {
		last := &p[n-1]
		if last.text = strings.TrimRight(last.text, " \n"); last.text != "" {
			return p[:n]
		}
	}
	return nil
}

// palette colours the few words that the channel itself writes.
type palette bool // whether there are colours

// newPalette honours https://no-color.org.
func newPalette() palette { return os.Getenv("NO_COLOR") == "" }

func (p palette) sgr(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p palette) dim(s string) string    { return p.sgr("2", s) }
func (p palette) bold(s string) string   { return p.sgr("1", s) }
func (p palette) accent(s string) string { return p.sgr("1;36", s) }
func (p palette) alarm(s string) string  { return p.sgr("31", s) }
