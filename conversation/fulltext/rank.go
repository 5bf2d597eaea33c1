package fulltext

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Document is a text that may contain what a query looks for.
type Document struct {
	ID   int64
	Text string    // or its beginning
	At   time.Time // when it was written

	// Has are the indexes of terms that the whole document is known to have, even where Text, its beginning, does not
	// show them.
	Has []int
}

// The constants of BM25 with their usual values, which SQLite uses too:
// https://www.sqlite.org/fts5.html, section 5.1.1.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// recencyHalf is the age, compared with the newest document, at which the bonus for recency is half of what the newest
// one gets.
const recencyHalf = 30 * 24 * time.Hour

// Rank sorts documents, the best first. The score of a document is its BM25 score among these documents, times the
// share of the terms that it has, times a bonus for recency: from 2 for the newest down to 1 for very old ones. Of
// documents with the same score, the one with the higher ID comes first.
func Rank(documents []Document, terms []Term) {
	if len(documents) == 0 {
		return
	}
	scored := score(documents, terms)
	slices.SortStableFunc(scored, func(a, b scoredDocument) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.document.ID, a.document.ID))
	})
	for i := range scored {
		documents[i] = scored[i].document
	}
}

// scoredDocument is a document with its score, and what the score is made of.
type scoredDocument struct {
	document Document
	counts   []int // of each term in the text
	length   int   // in words
	score    float64
}

func score(documents []Document, terms []Term) []scoredDocument {
	newest, average := documents[0].At, 0.0
	have := make([]int, len(terms)) // how many documents have each term
	scored := make([]scoredDocument, len(documents))
	for i, d := range documents {
		scored[i] = count(d, terms)
		average += float64(scored[i].length) / float64(len(documents))
		if d.At.After(newest) {
			newest = d.At
		}
		for t, n := range scored[i].counts {
			have[t] += min(n, 1)
		}
	}
	for i := range scored {
		s := &scored[i]
		recency := 1 / (1 + float64(newest.Sub(s.document.At))/float64(recencyHalf))
		s.score = s.bm25(have, len(documents), average) * s.share() * (1 + recency)
	}
	return scored
}

// count counts the words of a document, and its occurrences of each term.
func count(d Document, terms []Term) scoredDocument {
	words, parts := Tokenize(d.Text)
	s := scoredDocument{document: d, counts: make([]int, len(terms)), length: len(words)}
	for t := range terms {
		s.counts[t] = len(terms[t].find(words)) + len(terms[t].find(parts))
	}
	for _, t := range d.Has {
		s.counts[t] = max(s.counts[t], 1)
	}
	return s
}

// bm25 returns the BM25 score among documents of an average length, of which so many have each term.
func (s *scoredDocument) bm25(have []int, documents int, average float64) (score float64) {
	for t, n := range s.counts {
		rarity := math.Log(1 + (float64(documents-have[t])+0.5)/(float64(have[t])+0.5))
		length := 1 - bm25B + bm25B*float64(s.length)/max(average, 1)
		score += rarity * float64(n) * (bm25K1 + 1) / (float64(n) + bm25K1*length)
	}
	return score
}

// share returns the share of the terms that the document has, from 0 to 1.
func (s *scoredDocument) share() float64 {
	has := 0
	for _, n := range s.counts {
		has += min(n, 1)
	}
	return float64(has) / float64(len(s.counts))
}
