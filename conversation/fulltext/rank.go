package fulltext

import (
	"container/heap"
	"math"
	"slices"
)

// Posting says that a document has a term.
type Posting struct {
	ID     int64   // the ID of the document; neighboring documents have consecutive IDs
	Impact float64 // what the function Impact returns for the level of the term in the document
}

// Merge merges two lists of postings of one term, each sorted by ID. Of two postings with the same ID, it keeps the one with
// the higher impact. It may return one of the lists itself.
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

// maxRanked limits the postings of a query that are ranked, and so the cost. A single term may have more.
const maxRanked = 30_000

// distanceWeights has the weight of a term for a document by its distance: 0 = the document itself has it, 1 = a neighbor has
// it, 2 = the next document but one. A question and its answer are about the same, and each often has words that the other
// lacks. Only the best occurrence counts, so that a document gains nothing from neighbors that repeat its words.
var distanceWeights = [...]float64{1, 1.0 / 2, 1.0 / 4}

// List is the postings of one term of a query, sorted by ID.
type List struct {
	Postings []Posting
	Needed   bool // leave out documents without the term
}

// Ranking is an iterator over documents that have terms of a query, the best first.
type Ranking struct {
	documents []scored // a heap with the best document on top
}

// scored is a document with its score.
type scored struct {
	id       int64
	position int64 // its ID, less the number of hidden documents before it
	score    float64
	needed   int // how many of the needed terms the document itself has
}

// Rank ranks the documents that have all needed terms and, if no term is needed, at least one term. hidden has the sorted IDs
// of documents that are treated as if they did not exist; documents is the number of documents that were searched.
//
// The score of a document is its BM25 score, in which terms of its neighbors count, too: half for the document before and
// after it, a quarter for the next ones. Of documents with the same score, the one with the higher ID comes first.
//
// If there are more than about 30,000 postings, the most frequent terms are ignored, even if they are needed.
func Rank(lists []List, hidden []int64, documents int64) *Ranking {
	lists = rarest(lists)
	found := documentsOf(lists, hidden)
	needed := 0
	for _, list := range lists {
		addTerm(found, list, hidden, inverseFrequency(documents, len(list.Postings)))
		if list.Needed {
			needed++
		}
	}
	found = slices.DeleteFunc(found, func(s scored) bool { return s.needed < needed })
	r := &Ranking{found}
	heap.Init(r)
	return r
}

// rarest returns the terms that are ranked, the rarest first: as many as have at most maxRanked postings together, but at least
// one.
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

// inverseFrequency returns the inverse document frequency of BM25 for a term that frequency of the documents have.
func inverseFrequency(documents int64, frequency int) float64 {
	return math.Log(1 + (float64(max(documents-int64(frequency), 0))+0.5)/(float64(frequency)+0.5))
}

// documentsOf returns the documents that have any of the terms, sorted by ID, without hidden ones.
func documentsOf(lists []List, hidden []int64) []scored {
	var ids []int64
	for _, list := range lists {
		ids = withPostings(ids, list.Postings)
	}
	found := make([]scored, 0, len(ids))
	before := 0 // the number of hidden documents before id
	for _, id := range ids {
		for before < len(hidden) && hidden[before] < id {
			before++
		}
		if before == len(hidden) || hidden[before] != id {
			found = append(found, scored{id: id, position: id - int64(before)})
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

// addTerm adds to the score of each document what a term with a weight adds, and counts the term if it is needed. Both lists are
// sorted by ID.
func addTerm(found []scored, list List, hidden []int64, weight float64) {
	near := atPositions(list.Postings, hidden)
	const far = int64(len(distanceWeights))
	for i := range found {
		s := &found[i]
		for len(near) > 0 && near[0].ID <= s.position-far {
			near = near[1:]
		}
		if len(near) == 0 {
			return
		}
		best := 0.0
		for _, p := range near {
			if p.ID >= s.position+far {
				break
			}
			if p.ID == s.position && list.Needed {
				s.needed++
			}
			best = max(best, distanceWeights[max(p.ID-s.position, s.position-p.ID)]*p.Impact)
		}
		s.score += weight * best
	}
}

// atPositions returns the postings of documents that are not hidden, each with the document's position as its ID.
func atPositions(list []Posting, hidden []int64) []Posting {
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

// All returns the IDs of all documents that Next has not returned, the best first.
func (r *Ranking) All() []int64 { return r.Next(r.Len()) }

// Next returns the IDs of up to n further documents, the best first, and none at the end of the ranking.
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
