package fulltext

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Snippet is the part of a text that shows why it was found, on one line.
type Snippet []Piece

// Piece is a part of a snippet.
type Piece struct {
	Text  string
	Found bool // whether the query looked for this text
}

// Mark returns the snippet as text, with open in front of and end behind each piece that was found.
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

// HasFound reports whether the snippet shows something that the query looked for.
func (s Snippet) HasFound() bool {
	return slices.ContainsFunc(s, func(piece Piece) bool { return piece.Found })
}

// The approximate size of a snippet, in bytes.
const (
	snippetSize   = 240
	snippetBefore = 60 // the part of it in front of the first term
)

// NewSnippet returns about 240 bytes of a text, from the place with the most occurrences of the terms. An ellipsis marks where
// the text goes on.
func NewSnippet(text string, terms []Term) Snippet {
	text = norm.NFC.String(text)
	found := occurrences(text, terms)
	from := cutAt(text, densest(found)-snippetBefore)
	to := cutAt(text, from+snippetSize)
	var s Snippet
	if from > 0 {
		s = s.add("…", false)
	}
	at := from
	for _, o := range found {
		if o.start < at || o.end > to {
			continue
		}
		s = s.add(text[at:o.start], false).add(text[o.start:o.end], true)
		at = o.end
	}
	s = s.add(text[at:to], false)
	if to < len(text) {
		s = s.add("…", false)
	}
	return s
}

// occurrences returns the occurrences of the terms in a text, sorted by their start. Of those with the same start, the longest
// comes first.
func occurrences(text string, terms []Term) (found []occurrence) {
	words, parts := tokenize(text)
	for _, t := range terms {
		found = append(found, t.find(text, words)...)
		found = append(found, t.find(text, parts)...)
	}
	slices.SortFunc(found, func(a, b occurrence) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	return slices.Compact(found)
}

// densest returns the start of the occurrence with which a snippet shows the most occurrences, or 0 if there are none.
func densest(found []occurrence) int {
	best, most, end := 0, 0, 0
	for i, o := range found {
		for end < len(found) && found[end].end <= o.start+snippetSize-snippetBefore {
			end++
		}
		if end-i > most {
			best, most = o.start, end-i
		}
	}
	return best
}

// cutAt returns the offset at which to cut a text: at, or up to 20 bytes behind it where there is a space. It never cuts a
// character.
func cutAt(text string, at int) int {
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

// add appends a piece. It replaces each run of white space and control characters by one space.
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
