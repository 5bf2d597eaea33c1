package fulltext

import (
	"container/heap"
	"math"
	"slices"
)

// Posting says that a document has a term. Consecutive IDs are those of documents that follow each other.
type Posting struct {
	ID     int64
	Impact float64 // see Impact
}

// Merge returns the postings of one term from two lists, each sorted by ID. Of those with the same ID, it keeps the one
// with the higher impact.
func Merge(a, b []Posting) []Posting {
	if len(a) == 0 {
		return b
	}
	merged := make([]Posting, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].ID < b[0].ID:
			merged, a = append(merged, a[0]), a[1:]
		case a[0].ID > b[0].ID:
			merged, b = append(merged, b[0]), b[1:]
		default:
			merged = append(merged, Posting{a[0].ID, max(a[0].Impact, b[0].Impact)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// maxRanked is about how many postings of a query are ranked, so that the cost has a bound.
const maxRanked = 30_000

// neighborWeight is how much the better of the two documents beside one counts for it: a question and its answer share
// their words.
const neighborWeight = 0.5

// Ranking is the documents that have terms of a query, the best first.
type Ranking struct {
	documents []scored // in the order of a heap
}

// scored is a document with its score.
type scored struct {
	id           int64
	score, total float64 // of the document alone, and with its neighbors
	terms        int     // how many it has
}

// Rank ranks the documents that have any of the terms, or all of them. lists are the postings of each term, sorted by ID;
// hidden are sorted IDs of documents that are as if they did not exist; documents is the number of documents that are
// searched. The score of a document is its BM25 score and half of that of
// the better one of its neighbors. Of documents with the same score, the one with the higher ID comes first.
//
// Where there are very many postings, the most frequent terms count for nothing.
func Rank(lists [][]Posting, hidden []int64, documents int64, all bool) *Ranking {
	byRarity := slices.Clone(lists)
	slices.SortStableFunc(byRarity, func(a, b []Posting) int { return len(a) - len(b) })
	var found []scored
	ranked, counted := 0, 0
	for _, list := range byRarity {
		if ranked += len(list); ranked > maxRanked && counted > 0 {
			break
		}
		found = addTerm(found, list, rarity(documents, len(list)))
		counted++
	}
	if len(hidden) > 0 {
		found = slices.DeleteFunc(found, func(s scored) bool { return contains(hidden, s.id) })
	}
	addNeighbors(found, hidden)
	if all {
		found = slices.DeleteFunc(found, func(s scored) bool { return s.terms < counted })
	}
	r := &Ranking{found}
	heap.Init(r)
	return r
}

// rarity returns the weight of a term that so many of the documents have.
func rarity(documents int64, having int) float64 {
	return math.Log(1 + (float64(max(documents-int64(having), 0))+0.5)/(float64(having)+0.5))
}

// addTerm adds the postings of a term to the documents that were found, sorted by ID.
func addTerm(found []scored, list []Posting, weight float64) []scored {
	sum := make([]scored, 0, len(found)+len(list))
	for len(list) > 0 {
		p := list[0]
		switch {
		case len(found) > 0 && found[0].id < p.ID:
			sum, found = append(sum, found[0]), found[1:]
		case len(found) > 0 && found[0].id == p.ID:
			s := found[0]
			s.score, s.terms = s.score+weight*p.Impact, s.terms+1
			sum, found, list = append(sum, s), found[1:], list[1:]
		default:
			sum, list = append(sum, scored{id: p.ID, score: weight * p.Impact, terms: 1}), list[1:]
		}
	}
	return append(sum, found...)
}

func contains(ids []int64, id int64) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}

func addNeighbors(found []scored, hidden []int64) {
	for i := range found {
		s := &found[i]
		beside := 0.0
		if i > 0 && areNeighbors(found[i-1].id, s.id, hidden) {
			beside = found[i-1].score
		}
		if i+1 < len(found) && areNeighbors(s.id, found[i+1].id, hidden) {
			beside = max(beside, found[i+1].score)
		}
		s.total = s.score + neighborWeight*beside
	}
}

// areNeighbors reports whether there is no document between two, but for hidden ones.
func areNeighbors(before, after int64, hidden []int64) bool {
	for before++; before < after && contains(hidden, before); before++ {
	}
	return before == after
}

// Next returns the IDs of up to n documents that follow in the ranking.
func (r *Ranking) Next(n int) (ids []int64) {
	for len(ids) < n && r.Len() > 0 {
		ids = append(ids, heap.Pop(r).(scored).id)
	}
	return ids
}

// Len is part of heap.Interface, and so are Less, Swap, Push and Pop.
func (r *Ranking) Len() int { return len(r.documents) }

func (r *Ranking) Less(i, j int) bool {
	a, b := r.documents[i], r.documents[j]
	if a.total != b.total {
		return a.total > b.total
	}
	return a.id > b.id
}

func (r *Ranking) Swap(i, j int) { r.documents[i], r.documents[j] = r.documents[j], r.documents[i] }

func (r *Ranking) Push(s any) { r.documents = append(r.documents, s.(scored)) }

func (r *Ranking) Pop() any {
	last := r.documents[len(r.documents)-1]
	r.documents = r.documents[:len(r.documents)-1]
	return last
}
