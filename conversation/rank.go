package conversation

import (
	"cmp"
	"math"
	"slices"
	"time"

	"golang.org/x/text/unicode/norm"
)

// candidate is a message that the index has found.
type candidate struct {
	id      int64
	rowid   int64  // in the index
	text    string // its beginning
	at      time.Time
	known   []int // terms that it has, by the index
	score   float64
	counts  []int // of each term in the text
	written int   // words
}

// The constants of BM25 in their usual values, as SQLite has them:
// https://www.sqlite.org/fts5.html, section 5.1.1.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// newnessSpan is the age, from the newest candidate on, at which the bonus for
// newness is halved: a message of today counts twice one of a year ago.
const newnessSpan = 30 * 24 * time.Hour

// rank sorts candidates, the best first: BM25 among them, times the share of
// the terms that a message has, times its newness. The index could rank by
// itself, but would read every message that has a common word to do so.
func rank(candidates []candidate, terms []term) {
	if len(candidates) == 0 {
		return
	}
	newest, average := candidates[0].at, 0.0
	have := make([]int, len(terms)) // candidates that have each term
	for i := range candidates {
		c := &candidates[i]
		c.count(terms)
		average += float64(c.written) / float64(len(candidates))
		if c.at.After(newest) {
			newest = c.at
		}
		for t, n := range c.counts {
			have[t] += min(n, 1)
		}
	}
	for i := range candidates {
		c := &candidates[i]
		c.score = c.bm25(have, len(candidates), average) * c.share() * (1 + 1/(1+float64(newest.Sub(c.at))/float64(newnessSpan)))
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.id, a.id))
	})
}

func (c *candidate) count(terms []term) {
	words, parts := cutWords(norm.NFC.String(c.text))
	c.written = len(words)
	c.counts = make([]int, len(terms))
	for t := range terms {
		c.counts[t] = len(terms[t].find(words)) + len(terms[t].find(parts))
	}
	for _, t := range c.known { // perhaps beyond the beginning of the text
		c.counts[t] = max(c.counts[t], 1)
	}
}

func (c *candidate) bm25(have []int, candidates int, average float64) (score float64) {
	for t, n := range c.counts {
		rarity := math.Log(1 + (float64(candidates-have[t])+0.5)/(float64(have[t])+0.5))
		length := 1 - bm25B + bm25B*float64(c.written)/max(average, 1)
		score += rarity * float64(n) * (bm25K1 + 1) / (float64(n) + bm25K1*length)
	}
	return score
}

// share is how many of the terms the message has, from 0 to 1.
func (c *candidate) share() float64 {
	has := 0
	for _, n := range c.counts {
		has += min(n, 1)
	}
	return float64(has) / float64(len(c.counts))
}
