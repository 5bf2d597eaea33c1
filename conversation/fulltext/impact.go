package fulltext

import (
	"maps"
	"math"
	"slices"

	"golang.org/x/text/unicode/norm"
)

// A text is ranked by BM25. What a word adds to the score of a text is how rare the word is, times its impact: how often
// the text has it, for the text's length. The impact is known when the text is indexed, and the index holds each word
// with one of a few levels of it, so that a search ranks all texts without reading any. Quantised impacts are described
// by Anh and Moffat, "Vector-space ranking with effective early termination" (SIGIR 2001).

// The constants of BM25 with their usual values, which SQLite uses too:
// https://www.sqlite.org/fts5.html, section 5.1.1.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// typicalLength is the length of a text, in words, that neither raises nor lowers the impact of its words. BM25 has the
// average length of all texts here, which is not known when a text is indexed.
const typicalLength = 50

// Levels is the number of levels of impact, 0 being the highest.
const Levels = 3

// Impact returns the impact that a level stands for: 2, 1 or 1/2.
func Impact(level int) float64 { return math.Exp2(float64(1 - level)) }

// levelOf returns the level that comes closest to the impact of a word in a text that has it count times.
func levelOf(count, length int) int {
	n := float64(count)
	impact := n * (bm25K1 + 1) / (n + bm25K1*(1-bm25B+bm25B*float64(length)/typicalLength))
	return min(max(1-int(math.Round(math.Log2(impact))), 0), Levels-1)
}

// levelMark is the first of the characters that end a token and tell its level. No word has them.
const levelMark = '\uE010'

// AtLevel returns the token of a word that has an impact of a level.
func AtLevel(word string, level int) string { return word + string(levelMark+rune(level)) }

// RankTokens returns the tokens by which a text is ranked: each word, its stems, and the parts of compound words, with
// the levels of their impact. Characters of unspaced scripts are not among them.
func RankTokens(text string) []string {
	text = norm.NFC.String(text)
	words, parts := tokenize(text)
	stemmers := stemmersOf(words)
	counts, known := map[string]int{}, map[string][]string{} // of words, by their text as written
	for _, list := range [][]Token{words, parts} {
		for _, w := range list {
			if w.kind != ofLetters {
				continue
			}
			written := text[w.Start:w.End]
			stems, ok := known[written]
			if !ok {
				stems = stemsOf(text, w, stemmers)
				known[written] = stems
			}
			for _, stem := range stems {
				counts[stem]++
			}
		}
	}
	tokens := make([]string, 0, len(counts))
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		tokens = append(tokens, AtLevel(word, levelOf(counts[word], len(words))))
	}
	return tokens
}
