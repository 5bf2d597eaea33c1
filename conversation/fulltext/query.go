package fulltext

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Phrase is words that follow each other directly.
type Phrase []string

// Term is one thing that a query looks for: a word, a compound word or a quoted phrase.
type Term struct {
	Phrases []Phrase // a text has the term if it has any of these; there is at least one
	Prefix  bool     // the last word of each phrase also matches longer words that begin with it
	Quoted  bool

	pieces []Phrase // its words, for SplitTerms
	last   bool     // it ends the query, so that somebody may still be typing it
}

// The limits of a query. What exceeds them is ignored: it would only cost.
const (
	maxQuery  = 2000 // bytes
	maxTerms  = 12
	maxPhrase = 32 // words
)

// ParseQuery returns the terms of a query, the longest first: they are the rarest, and so the best to look for first.
// Double quotes enclose phrases; every other character is plain text. At most 12 terms are returned.
func ParseQuery(query string) []Term {
	query = strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")
	var terms []Term
	for i, section := range strings.Split(norm.NFC.String(query), `"`) {
		if i%2 == 1 { // between quotes
			terms = appendTerm(terms, section, true)
			continue
		}
		for _, field := range strings.Fields(section) {
			terms = appendTerm(terms, field, false)
		}
	}
	if terms = terms[:min(len(terms), maxTerms)]; len(terms) > 0 {
		terms[len(terms)-1].last = true
	}
	slices.SortStableFunc(terms, func(a, b Term) int { return b.size() - a.size() })
	return terms
}

// appendTerm adds the term that a section of a query stands for, unless it is known or the text has no words.
func appendTerm(terms []Term, text string, quoted bool) []Term {
	words, parts := tokenize(text)
	if len(words) == 0 {
		return terms
	}
	t := Term{Quoted: quoted, Phrases: []Phrase{phraseOf(words)}}
	if len(parts) > 0 && len(words) == 1 {
		t.Phrases = append(t.Phrases, phraseOf(parts))
	}
	if slices.ContainsFunc(terms, func(known Term) bool { return slices.Equal(known.Phrases[0], t.Phrases[0]) }) {
		return terms
	}
	t.pieces = piecesOf(words)
	if len(parts) > 0 && len(words) == 1 {
		t.pieces = append(t.pieces, piecesOf(parts)...)
	}
	return append(terms, t)
}

func phraseOf(words []Token) (p Phrase) {
	for _, w := range words[:min(len(words), maxPhrase)] {
		p = append(p, w.Text)
	}
	return p
}

// piecesOf returns each word as a phrase, and of adjacent characters of an unspaced script each pair: one character
// alone says too little.
func piecesOf(words []Token) (pieces []Phrase) {
	for i, w := range words {
		paired := w.kind == ofCharacter && i > 0 && words[i-1].kind == ofCharacter && words[i-1].End == w.Start
		begins := w.kind == ofCharacter && i+1 < len(words) && words[i+1].kind == ofCharacter && words[i+1].Start == w.End
		switch {
		case paired:
			pieces = append(pieces, Phrase{words[i-1].Text, w.Text})
		case !begins:
			pieces = append(pieces, Phrase{w.Text})
		}
	}
	return pieces
}

// SplitTerms returns the single words of all terms, each as a term of its own: what to look for where no text has all
// of the terms. In unspaced scripts, pairs of characters stand for words. At most 12 terms are returned.
func SplitTerms(terms []Term) []Term {
	var list []Term
	for _, t := range terms {
		for _, piece := range t.pieces {
			known := slices.ContainsFunc(list, func(known Term) bool { return slices.Equal(known.Phrases[0], piece) })
			if !known && len(list) < maxTerms {
				list = append(list, Term{Phrases: []Phrase{piece}})
			}
		}
	}
	return list
}

// size returns the length of the term's words in bytes.
func (t Term) size() (n int) {
	for _, word := range t.Phrases[0] {
		n += len(word)
	}
	return n
}

// IsPhrase reports whether the term has several words, so that an index must compare where they stand.
func (t Term) IsPhrase() bool {
	return slices.ContainsFunc(t.Phrases, func(p Phrase) bool { return len(p) > 1 })
}

// minPrefix is how many bytes the beginning of a word must have to match longer words. Shorter ones begin so many words
// that the search would be slow.
const minPrefix = 4

// MayBePrefix reports whether the term may be a word that somebody has not finished typing: the last of the query, not
// quoted, and of at least 4 bytes.
func (t Term) MayBePrefix() bool {
	p := t.Phrases[0]
	return t.last && !t.Quoted && len(p[len(p)-1]) >= minPrefix
}

// occurrence is where a term stands in a text, in bytes.
type occurrence struct{ start, end int }

// find returns the occurrences of the term in a text, given by its words in order.
func (t Term) find(words []Token) (found []occurrence) {
	for i := range words {
		for _, p := range t.Phrases {
			if i+len(p) <= len(words) && t.matches(words[i:i+len(p)], p) {
				found = append(found, occurrence{words[i].Start, words[i+len(p)-1].End})
				break
			}
		}
	}
	return found
}

// matches reports whether the words are those of the phrase, as many as it has.
func (t Term) matches(words []Token, p Phrase) bool {
	last := len(p) - 1
	for i, w := range p[:last] {
		if words[i].Text != w {
			return false
		}
	}
	return words[last].Text == p[last] || t.Prefix && strings.HasPrefix(words[last].Text, p[last])
}
