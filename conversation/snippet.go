package conversation

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Snippet is the part of a message that shows why it was found, in one line.
type Snippet []Piece

// Piece is a stretch of a snippet's text.
type Piece struct {
	Text  string
	Found bool // it is one of the words that were looked for
}

// Mark gives the snippet as text, with what was found between open and end.
func (s Snippet) Mark(open, end string) string {
	var b strings.Builder
	for _, piece := range s {
		if piece.Found {
			b.WriteString(open + piece.Text + end)
		} else {
			b.WriteString(piece.Text)
		}
	}
	return b.String()
}

// A snippet has about this many bytes, some of them before what was found.
const (
	snippetSize   = 240
	snippetBefore = 60
)

// snippetOf cuts the stretch out of a text that has the most of the terms.
func snippetOf(text string, terms []term) Snippet {
	text = norm.NFC.String(text)
	places := placesIn(text, terms)
	from := wordBoundary(text, bestStart(places)-snippetBefore)
	to := wordBoundary(text, from+snippetSize)
	var s Snippet
	if from > 0 {
		s = s.add("…", false)
	}
	at := from
	for _, p := range places {
		if p.start < at || p.end > to {
			continue
		}
		s = s.add(text[at:p.start], false).add(text[p.start:p.end], true)
		at = p.end
	}
	s = s.add(text[at:to], false)
	if to < len(text) {
		s = s.add("…", false)
	}
	return s
}

// placesIn gives where the terms stand, in order.
func placesIn(text string, terms []term) (places []place) {
	words, parts := cutWords(text)
	for _, t := range terms {
		places = append(places, t.find(words)...)
		places = append(places, t.find(parts)...)
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	return slices.Compact(places)
}

// bestStart is the first place of the stretch that has the most places.
func bestStart(places []place) int {
	best, most, end := 0, 0, 0
	for i, p := range places {
		for end < len(places) && places[end].end <= p.start+snippetSize-snippetBefore {
			end++
		}
		if end-i > most {
			best, most = p.start, end-i
		}
	}
	return best
}

// wordBoundary is a place near at, not before it, where a text may be cut: a
// blank, or else where a character begins.
func wordBoundary(text string, at int) int {
	if at <= 0 {
		return 0
	}
	if at >= len(text) {
		return len(text)
	}
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	const near = 20
	for i, r := range text[at:min(len(text), at+near)] {
		if unicode.IsSpace(r) {
			return at + i
		}
	}
	return at
}

// add appends text as one line: runs of blanks and control characters become
// one blank.
func (s Snippet) add(text string, found bool) Snippet {
	var b strings.Builder
	blank := len(s) == 0 || strings.HasSuffix(s[len(s)-1].Text, " ")
	for _, r := range text {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			if !blank {
				b.WriteByte(' ')
			}
			blank = true
			continue
		}
		b.WriteRune(r)
		blank = false
	}
	if b.Len() == 0 {
		return s
	}
	return append(s, Piece{Text: b.String(), Found: found})
}
