package fulltext

import (
	"maps"
	"math"
	"slices"

	"golang.org/x/text/unicode/norm"
)

// Texts are ranked by BM25. A word adds to the score of a text its inverse document frequency times its impact, which
// depends on how often the text has the word and on the length of the text. The impact is known when the text is indexed.
// So the index holds each word with one of a few levels of impact, and a search ranks texts without reading them. Such
// quantised impacts are described by Anh and Moffat, "Vector-space ranking with effective early termination" (SIGIR 2001).

// The constants of BM25 with their usual values, which SQLite uses, too:
// https://www.sqlite.org/fts5.html, section 5.1.1.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// typicalLength is the length of a text, in words, that neither raises nor lowers the impact of its words. It stands for the
// average length of all texts in BM25, which is not known when a text is indexed.
const typicalLength = 50

// Levels is the number of levels of impact. Level 0 is the highest.
const Levels = 3

// Impact returns the impact that a level stands for: 2, 1 or 1/2.
func Impact(level int) float64 { return math.Exp2(float64(1 - level)) }

// levelOf returns the level that comes closest to the impact of a word in a text that has it count times.
func levelOf(count, length int) int {
	n := float64(count)
	impact := n * (bm25K1 + 1) / (n + bm25K1*(1-bm25B+bm25B*float64(length)/typicalLength))
	return min(max(1-int(math.Round(math.Log2(impact))), 0), Levels-1)
}

// levelMark is the character that marks level 0 at the end of a token; the marks of the other levels follow it in Unicode. They
// are in a private use area, so that no word has them.
const levelMark = '\uE010'

// AtLevel returns the token for a word with a level of impact.
func AtLevel(word string, level int) string { return word + string(levelMark+rune(level)) }

// RankTokens returns the tokens by which a text is ranked, sorted: each word, its stems, and the parts of compound words,
// each with its level of impact. There are none for characters of unspaced scripts.
func RankTokens(text string) []string {
	text = norm.NFC.String(text)
	words, parts := tokenize(text)
	stemmers := stemmersOf(words)
	counts, known := map[string]int{}, map[string][]string{} // known has the stems of words, by their spelling in the text
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
