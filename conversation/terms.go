package conversation

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// What is looked for, as plain text says it. Nothing in it is syntax but
// double quotes.

// phrase is words that follow each other.
type phrase []string

// term is one thing that a message must have to be found: any of its phrases.
type term struct {
	phrases []phrase
	pieces  []phrase // what is looked for instead, where no message has all terms
	prefix  bool     // the last word of a phrase may also be the beginning of one
	quoted  bool
	last    bool // of the query, where somebody may still be typing
}

// What of a query is looked at: more would only cost.
const (
	maxQuery  = 2000 // bytes
	maxTerms  = 12
	maxPhrase = 32 // words
)

// parseTerms reads a query. The longest terms come first: they are the rarest,
// and whoever looks for all of them does well to look for these first.
func parseTerms(query string) []term {
	query = strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")
	var terms []term
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
	slices.SortStableFunc(terms, func(a, b term) int { return b.size() - a.size() })
	return terms
}

func appendTerm(terms []term, text string, quoted bool) []term {
	words, parts := cutWords(text)
	if len(words) == 0 {
		return terms
	}
	t := term{quoted: quoted, phrases: []phrase{phraseOf(words)}}
	if len(parts) > 0 && len(words) == 1 {
		t.phrases = append(t.phrases, phraseOf(parts))
	}
	if slices.ContainsFunc(terms, func(known term) bool { return slices.Equal(known.phrases[0], t.phrases[0]) }) {
		return terms
	}
	t.pieces = piecesOf(words)
	if len(parts) > 0 && len(words) == 1 {
		t.pieces = append(t.pieces, piecesOf(parts)...)
	}
	return append(terms, t)
}

func phraseOf(words []word) (p phrase) {
	for _, w := range words[:min(len(words), maxPhrase)] {
		p = append(p, w.text)
	}
	return p
}

// piecesOf gives each word, and of a stretch of characters each two that follow
// each other: one alone says too little.
func piecesOf(words []word) (pieces []phrase) {
	for i, w := range words {
		paired := w.kind == ofCharacter && i > 0 && words[i-1].kind == ofCharacter && words[i-1].end == w.start
		begins := w.kind == ofCharacter && i+1 < len(words) && words[i+1].kind == ofCharacter && words[i+1].start == w.end
		switch {
		case paired:
			pieces = append(pieces, phrase{words[i-1].text, w.text})
		case !begins:
			pieces = append(pieces, phrase{w.text})
		}
	}
	return pieces
}

func (t term) size() (n int) {
	for _, word := range t.phrases[0] {
		n += len(word)
	}
	return n
}

// isPhrase says whether FTS5 must compare where words stand.
func (t term) isPhrase() bool {
	return slices.ContainsFunc(t.phrases, func(p phrase) bool { return len(p) > 1 })
}

// split gives the pieces of all terms, each as a term of its own.
func split(terms []term) []term {
	var list []term
	for _, t := range terms {
		for _, piece := range t.pieces {
			known := slices.ContainsFunc(list, func(known term) bool { return slices.Equal(known.phrases[0], piece) })
			if !known && len(list) < maxTerms {
				list = append(list, term{phrases: []phrase{piece}})
			}
		}
	}
	return list
}

// minPrefix is how many bytes the beginning of a word must have to stand for
// it: shorter ones begin so many words that the search would be slow.
const minPrefix = 4

// mayBegin says whether somebody may still be typing the term.
func (t term) mayBegin() bool {
	p := t.phrases[0]
	return t.last && !t.quoted && len(p[len(p)-1]) >= minPrefix
}

// find gives where the term stands in a text, by its words in order.
func (t term) find(words []word) (places []place) {
	for i := range words {
		for _, p := range t.phrases {
			if i+len(p) <= len(words) && t.standsAt(words[i:i+len(p)], p) {
				places = append(places, place{words[i].start, words[i+len(p)-1].end})
				break
			}
		}
	}
	return places
}

func (t term) standsAt(words []word, p phrase) bool {
	last := len(p) - 1
	for i, w := range p[:last] {
		if words[i].text != w {
			return false
		}
	}
	return words[last].text == p[last] || t.prefix && strings.HasPrefix(words[last].text, p[last])
}

// place is where a term stands in a text, in bytes.
type place struct{ start, end int }

// match is the term in the syntax of FTS5: https://www.sqlite.org/fts5.html,
// section 3. Words have no characters that would need escaping.
func (t term) match() string {
	var phrases []string
	for _, p := range t.phrases {
		text := `"` + strings.Join(p, " ") + `"`
		if t.prefix {
			text += " *"
		}
		phrases = append(phrases, text)
	}
	return "(" + strings.Join(phrases, " OR ") + ")"
}

func matchAll(terms []term) string {
	list := make([]string, len(terms))
	for i, t := range terms {
		list[i] = t.match()
	}
	return strings.Join(list, " AND ")
}

// maxSteps is how many words of a phrase are looked for before the phrase.
const maxSteps = 4

// stepsOf gives the matches that a message must have all of: one for each term,
// after some words of each long phrase, which tell sooner that there is none.
func stepsOf(terms []term) (steps []string) {
	for _, t := range terms {
		if p := t.phrases[0]; len(p) > 2 && len(t.phrases) == 1 {
			for _, word := range p[:min(len(p)-1, maxSteps)] { // the last may be a beginning
				steps = append(steps, `"`+word+`"`)
			}
		}
	}
	for _, t := range terms {
		steps = append(steps, t.match())
	}
	return steps
}
