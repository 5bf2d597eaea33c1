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

	stems    []string  // the forms by which texts with the word are ranked; nil unless it is one simple word
	stemmers []stemmer // that they are made with
	pieces   []Term    // its words, for SplitTerms
	last     bool      // it ends the query, so that somebody may still be typing it
}

// The limits of a query. What exceeds them is ignored: it would only cost.
const (
	maxQuery  = 2000 // bytes
	maxTerms  = 32
	maxPhrase = 32 // words
)

// ParseQuery returns the terms of a query, the longest first: they are the rarest, and so the best to look for first.
// Double quotes enclose phrases; every other character is plain text. At most 32 terms are returned.
func ParseQuery(query string) []Term {
	query = norm.NFC.String(strings.ToValidUTF8(query[:min(len(query), maxQuery)], ""))
	words, _ := tokenize(query)
	p := parser{stemmers: stemmersOf(words)}
	for i, section := range strings.Split(query, `"`) {
		if i%2 == 1 { // between quotes
			p.add(section, true)
			continue
		}
		for _, field := range strings.Fields(section) {
			p.add(field, false)
		}
	}
	terms := p.terms
	if terms = terms[:min(len(terms), maxTerms)]; len(terms) > 0 {
		terms[len(terms)-1].last = true
	}
	slices.SortStableFunc(terms, func(a, b Term) int { return b.size() - a.size() })
	return terms
}

// parser collects the terms of a query.
type parser struct {
	stemmers []stemmer // of the query's words in Latin script
	terms    []Term
}

// add adds the term that a section of a query stands for, unless it is known or the text has no words.
func (p *parser) add(text string, quoted bool) {
	words, parts := tokenize(text)
	if len(words) == 0 {
		return
	}
	t := Term{Quoted: quoted, Phrases: []Phrase{phraseOf(words)}, pieces: p.pieces(text, words)}
	if len(words) == 1 {
		t.stems, t.stemmers = p.stems(text, words[0]), p.stemmers
		if len(parts) > 0 {
			t.Phrases = append(t.Phrases, phraseOf(parts))
			t.pieces = append(t.pieces, p.pieces(text, parts)...)
			t.stems = nil // it has several words, too
		}
	}
	if !hasPhrase(p.terms, t.Phrases[0]) {
		p.terms = append(p.terms, t)
	}
}

// stems returns the forms of a word by which texts are ranked, nil if it is a character of an unspaced script.
func (p *parser) stems(text string, word Token) []string {
	if word.kind != ofLetters {
		return nil
	}
	return stemsOf(text, word, p.stemmers)
}

func hasPhrase(terms []Term, phrase Phrase) bool {
	return slices.ContainsFunc(terms, func(t Term) bool { return slices.Equal(t.Phrases[0], phrase) })
}

func phraseOf(words []Token) (p Phrase) {
	for _, w := range words[:min(len(words), maxPhrase)] {
		p = append(p, w.Text)
	}
	return p
}

// pieces returns each word as a term, and of adjacent characters of an unspaced script each pair: one character alone
// says too little.
func (p *parser) pieces(text string, words []Token) (pieces []Term) {
	for i, w := range words {
		paired := w.kind == ofCharacter && i > 0 && words[i-1].kind == ofCharacter && words[i-1].End == w.Start
		begins := w.kind == ofCharacter && i+1 < len(words) && words[i+1].kind == ofCharacter && words[i+1].Start == w.End
		switch {
		case paired:
			pieces = append(pieces, Term{Phrases: []Phrase{{words[i-1].Text, w.Text}}})
		case !begins:
			pieces = append(pieces, Term{Phrases: []Phrase{{w.Text}}, stems: p.stems(text, w), stemmers: p.stemmers})
		}
	}
	return pieces
}

// SplitTerms returns quoted phrases, and the single words of all other terms, each as a term of its own: what to look for
// where no text has all of the terms. In unspaced scripts, pairs of characters stand for words. At most 32 terms are returned.
func SplitTerms(terms []Term) []Term {
	var list []Term
	for _, t := range terms {
		pieces := t.pieces
		if t.Quoted {
			pieces = []Term{t}
		}
		for _, piece := range pieces {
			if !hasPhrase(list, piece.Phrases[0]) && len(list) < maxTerms {
				list = append(list, piece)
			}
		}
	}
	return list
}

// RankTokens returns the tokens, see the function RankTokens, of texts that have the term with an impact of a level. It
// returns nil for phrases, prefixes and unspaced scripts, of which there are no such tokens.
func (t Term) RankTokens(level int) (tokens []string) {
	if t.Prefix {
		return nil
	}
	for _, stem := range t.stems {
		tokens = append(tokens, AtLevel(stem, level))
	}
	return tokens
}

// size returns the length of the term's words in bytes.
func (t Term) size() (n int) {
	for _, word := range t.Phrases[0] {
		n += len(word)
	}
	return n
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

// MayEnd reports whether the term is the last word of a query, which somebody may still be typing.
func (t Term) MayEnd() bool { return t.last && !t.Quoted }

// Words are the words of a text, in which terms are looked for.
type Words struct {
	text         string
	words, parts []Token
}

// WordsOf returns the words of a text.
func WordsOf(text string) Words {
	text = norm.NFC.String(text)
	words, parts := tokenize(text)
	return Words{text, words, parts}
}

// Has reports whether the text has a term.
func (w Words) Has(t Term) bool {
	return len(t.find(w.text, w.words)) > 0 || len(t.find(w.text, w.parts)) > 0
}

// occurrence is where a term stands in a text, in bytes.
type occurrence struct{ start, end int }

// find returns the occurrences of the term in a text, given by its words in order.
func (t Term) find(text string, words []Token) (found []occurrence) {
	forms := map[string]bool{} // whether words are forms of the term, as they are written
	for i, w := range words {
		written := text[w.Start:w.End]
		form, known := forms[written]
		if !known {
			form = t.isForm(text, w)
			forms[written] = form
		}
		if form {
			found = append(found, occurrence{words[i].Start, words[i].End})
			continue
		}
		for _, p := range t.Phrases {
			if i+len(p) <= len(words) && t.matches(words[i:i+len(p)], p) {
				found = append(found, occurrence{words[i].Start, words[i+len(p)-1].End})
				break
			}
		}
	}
	return found
}

// minForm is how many bytes a word and a form of it have in common at least, at their beginning. Other words are not
// stemmed to compare them, which takes long.
const minForm = 3

// isForm reports whether a word of a text has a stem in common with the term.
func (t Term) isForm(text string, word Token) bool {
	if len(t.stems) < 1 || t.Prefix || !hasCommonStart(word.Text, t.stems[0]) {
		return false
	}
	return slices.ContainsFunc(stemsOf(text, word, t.stemmers), func(stem string) bool { return slices.Contains(t.stems, stem) })
}

func hasCommonStart(a, b string) bool {
	return len(a) >= minForm && len(b) >= minForm && a[:minForm] == b[:minForm]
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
