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

// nearness is how much a term counts for a document by how far away it stands: in the document, in one beside it, or in
// the next but one. A question and its answer share their words, and each often has some that the other lacks. Of all places
// the best one counts, so that a document gains nothing from neighbors that repeat its words.
var nearness = [...]float64{1, 1.0 / 2, 1.0 / 4}

// List is the postings of one term of a query, sorted by ID.
type List struct {
	Postings []Posting
	Needed   bool // documents without the term are not found
}

// Ranking is the documents that have terms of a query, the best first.
type Ranking struct {
	documents []scored // in the order of a heap
}

// scored is a document with its score.
type scored struct {
	id, place int64 // place: how many documents are before it, but for hidden ones
	score     float64
	needed    int // how many of the needed terms it has itself
}

// Rank ranks the documents that have any of the terms, and all that are needed. hidden are sorted IDs of documents that are as if they did not exist; documents is the number of documents that are
// searched. The score of a document is its BM25 score, in which terms of the documents around it count as well: half in those
// beside it, a quarter in the next ones. Of documents with the same score, the one with the higher ID comes first.
//
// Where there are very many postings, the most frequent terms count for nothing, and are not needed.
func Rank(lists []List, hidden []int64, documents int64) *Ranking {
	lists = rarest(lists)
	found := documentsOf(lists, hidden)
	needed := 0
	for _, list := range lists {
		addTerm(found, list, hidden, rarity(documents, len(list.Postings)))
		if list.Needed {
			needed++
		}
	}
	found = slices.DeleteFunc(found, func(s scored) bool { return s.needed < needed })
	r := &Ranking{found}
	heap.Init(r)
	return r
}

// rarest returns the terms that are ranked, the rarest first: as many as have about maxRanked postings together, and at
// least one.
func rarest(lists []List) []List {
	lists = slices.Clone(lists)
	slices.SortStableFunc(lists, func(a, b List) int { return len(a.Postings) - len(b.Postings) })
	postings := 0
	for i, list := range lists {
		if postings += len(list.Postings); postings > maxRanked && i > 0 {
			return lists[:i]
		}
	}
	return lists
}

// rarity returns the weight of a term that so many of the documents have.
func rarity(documents int64, having int) float64 {
	return math.Log(1 + (float64(max(documents-int64(having), 0))+0.5)/(float64(having)+0.5))
}

// documentsOf returns the documents that have any of the terms, sorted by ID, without hidden ones.
func documentsOf(lists []List, hidden []int64) []scored {
	var ids []int64
	for _, list := range lists {
		ids = withPostings(ids, list.Postings)
	}
	found := make([]scored, 0, len(ids))
	before := 0 // hidden ones
	for _, id := range ids {
		for before < len(hidden) && hidden[before] < id {
			before++
		}
		if before == len(hidden) || hidden[before] != id {
			found = append(found, scored{id: id, place: id - int64(before)})
		}
	}
	return found
}

// withPostings merges sorted IDs with those of postings.
func withPostings(ids []int64, list []Posting) []int64 {
	merged := make([]int64, 0, len(ids)+len(list))
	for _, p := range list {
		for len(ids) > 0 && ids[0] < p.ID {
			merged, ids = append(merged, ids[0]), ids[1:]
		}
		if len(ids) > 0 && ids[0] == p.ID {
			ids = ids[1:]
		}
		merged = append(merged, p.ID)
	}
	return append(merged, ids...)
}

// addTerm adds to the score of each document what a term counts for it. Both lists are sorted by ID.
func addTerm(found []scored, list List, hidden []int64, weight float64) {
	places := placesOf(list.Postings, hidden)
	const far = int64(len(nearness))
	for i := range found {
		s := &found[i]
		for len(places) > 0 && places[0].ID <= s.place-far {
			places = places[1:]
		}
		if len(places) == 0 {
			return
		}
		best := 0.0
		for _, p := range places {
			if p.ID >= s.place+far {
				break
			}
			if p.ID == s.place && list.Needed {
				s.needed++
			}
			best = max(best, nearness[max(p.ID-s.place, s.place-p.ID)]*p.Impact)
		}
		s.score += weight * best
	}
}

// placesOf returns postings without those of hidden documents, with the place of each document instead of its ID.
func placesOf(list []Posting, hidden []int64) []Posting {
	if len(hidden) == 0 {
		return list
	}
	places := make([]Posting, 0, len(list))
	before := 0
	for _, p := range list {
		for before < len(hidden) && hidden[before] < p.ID {
			before++
		}
		if before == len(hidden) || hidden[before] != p.ID {
			places = append(places, Posting{p.ID - int64(before), p.Impact})
		}
	}
	return places
}

// All returns the IDs of all documents, the best first.
func (r *Ranking) All() []int64 { return r.Next(r.Len()) }

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
	if a.score != b.score {
		return a.score > b.score
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
