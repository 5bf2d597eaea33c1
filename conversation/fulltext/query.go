package fulltext

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Phrase is a list of words that follow each other directly.
type Phrase []string

// Term is one thing that a query looks for: a word, a compound word or a quoted phrase.
type Term struct {
	Phrases []Phrase // a text has the term if it has any of these phrases; there is at least one
	Prefix  bool     // the last word of each phrase also matches longer words that begin with it
	Quoted  bool

	stems    []string  // what texts with the word are ranked by, see stemsOf; nil unless the term is one simple word
	stemmers []stemmer // the stemmers that made the stems
	pieces   []Term    // the single words of the term, for SplitTerms
	last     bool      // whether it ends the query, so that somebody may still be typing it
}

// The limits of a query. The rest is ignored.
const (
	maxQuery  = 2000 // bytes
	maxTerms  = 32
	maxPhrase = 32 // words
)

// ParseQuery returns the terms of a query, the longest first: long words are usually the rarest, and so the best to look up
// first. Double quotes enclose phrases; every other character is plain text. At most 2,000 bytes of the query, 32 terms
// and 32 words of a phrase are used.
func ParseQuery(query string) []Term {
	query = norm.NFC.String(strings.ToValidUTF8(query[:min(len(query), maxQuery)], ""))
	words, _ := tokenize(query)
	p := parser{stemmers: stemmersOf(words)}
	for i, section := range strings.Split(query, `"`) {
		if i%2 == 1 { // the section is between quotes
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
	stemmers []stemmer // for the query's words in Latin script
	terms    []Term
}

// add adds a section of the query as a term, unless there is such a term already or the section has no words.
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
			t.stems = nil // a compound word is not one simple word
		}
	}
	if !hasPhrase(p.terms, t.Phrases[0]) {
		p.terms = append(p.terms, t)
	}
}

// stems returns what stemsOf does for a word, or nil if it is a character of an unspaced script.
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

// pieces returns each word as a term. Of adjacent characters of an unspaced script it returns each pair as a term, since a
// single character matches too much.
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

// SplitTerms returns the quoted phrases among the terms, and each single word of the other terms as a term of its own. It is
// for a second search if no text has all terms. In unspaced scripts, pairs of characters stand for words. At most 32 terms
// are returned.
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

// RankTokens returns the tokens for the term with a level of impact. A text has the term with this impact if the function
// RankTokens returns one of these tokens for it. The method returns nil for phrases, compound words, prefixes and unspaced
// scripts, which have no such tokens.
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

// minPrefix is the minimum length in bytes of a word that may match longer words. So many words begin with a shorter one
// that the search would be slow.
const minPrefix = 4

// MayBePrefix reports whether the term may be a word that somebody has not finished typing: the last of the query, not
// quoted, and of at least 4 bytes.
func (t Term) MayBePrefix() bool {
	p := t.Phrases[0]
	return t.last && !t.Quoted && len(p[len(p)-1]) >= minPrefix
}

// MayEnd reports whether the term is the last one of a query and not quoted, so that somebody may still be typing it. Unlike
// for MayBePrefix, its length does not matter.
func (t Term) MayEnd() bool { return t.last && !t.Quoted }

// Words holds the words of a text, in which Has looks for terms.
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

// occurrence is the position of a term in a text: byte offsets, end excluded.
type occurrence struct{ start, end int }

// find returns the occurrences of the term among the words of a text, which are in order.
func (t Term) find(text string, words []Token) (found []occurrence) {
	forms := map[string]bool{} // whether a word, as it is spelled in the text, is a form of the term
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

// minForm is the minimum number of bytes that a word and the term must have in common at the beginning. Other words are not
// stemmed and compared, since stemming is slow.
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

// matches reports whether words are those of the phrase. There must be as many as the phrase has.
func (t Term) matches(words []Token, p Phrase) bool {
	last := len(p) - 1
	for i, w := range p[:last] {
		if words[i].Text != w {
			return false
		}
	}
	return words[last].Text == p[last] || t.Prefix && strings.HasPrefix(words[last].Text, p[last])
}
