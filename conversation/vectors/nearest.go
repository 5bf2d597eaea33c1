package vectors

import (
	"container/heap"
	"context"
	"database/sql"
	"slices"

	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// Conversation is a conversation that Nearest searches.
type Conversation struct {
	ID       int64 // the id of its row
	Messages int64 // the number of its messages
}

const (
	// exactValues is the number of messages times dimensions up to which all messages are compared exactly. Where there
	// are more, signs are compared first.
	exactValues = 3_000_000

	// rescored is how many of the messages with the most equal signs are then compared exactly.
	rescored = 500

	// scanRows is how many messages are read at once, at most.
	scanRows = 16_384
)

// Nearest returns up to n messages of the conversations whose vectors are nearest to that of a query, the nearest first. It
// returns the rows of the messages in the index of words. There are none if the stored vectors have another number of
// dimensions than the query. The score of a message is its cosine similarity, to which its neighbors' similarities add:
// half of that of the message before or after it, and a quarter of that of the next but one.
func (v *Vectors) Nearest(ctx context.Context, q db.Querier, conversations []Conversation, query []float32, n int) ([]int64, error) {
	s, err := read(ctx, q)
	if err != nil || s.generation == 0 || s.length != int64(len(query)) {
		return nil, err
	}
	quantised, ok := quantise(query)
	if !ok {
		return nil, nil
	}
	search := nearest{q: q, generation: s.generation, query: quantised}
	var messages int64
	for _, c := range conversations {
		messages += c.Messages
	}
	if messages*s.length <= exactValues {
		err = search.scoreAll(ctx, conversations)
		search.addNeighbors()
		return search.best(n), err
	}
	candidates, err := search.bySigns(ctx, v.signs, conversations, appendWords(nil, string(signsOf(query))))
	if err != nil {
		return nil, err
	}
	err = search.rescore(ctx, candidates)
	search.addNeighbors()
	return search.best(n), err
}

// nearest is one search under way.
type nearest struct {
	q          db.Querier
	generation Generation
	query      quantised
	found      []scored
}

// best returns the up to n nearest messages that were found, the nearest first.
func (l *nearest) best(n int) []int64 {
	var kept worstFirst
	for _, f := range l.found {
		kept.keep(f, n)
	}
	return kept.ids()
}

// keep adds a message if it is among the n best so far, and drops the worst one if there are more.
func (h *worstFirst) keep(m scored, n int) {
	switch {
	case len(*h) < n:
		heap.Push(h, m)
	case n > 0 && (*h)[0].isWorse(m):
		(*h)[0] = m
		heap.Fix(h, 0)
	}
}

// ids empties the heap, and returns its messages, the nearest first.
func (h *worstFirst) ids() []int64 {
	ids := make([]int64, len(*h))
	for i := len(ids) - 1; i >= 0; i-- {
		ids[i] = heap.Pop(h).(scored).id
	}
	return ids
}

// isWorse reports whether the other message has a higher score, or the same score and is newer.
func (s scored) isWorse(other scored) bool {
	return s.score < other.score || s.score == other.score && s.id < other.id
}

// worstFirst is a heap of messages with the worst one on top. It implements heap.Interface.
type worstFirst []scored

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(i, j int) bool { return h[i].isWorse(h[j]) }
func (h worstFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worstFirst) Push(n any)        { *h = append(*h, n.(scored)) }
func (h *worstFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// distanceWeights has the weight of a message's similarity for a message at this distance. A question and its answer are about
// the same.
var distanceWeights = [...]float64{1: 1.0 / 2, 2: 1.0 / 4}

// addNeighbors adds to the score of each message those of its neighbors, weighted by distance. Of the two neighbors at the same
// distance, the better one counts. Messages of one conversation must have been found in their order.
func (l *nearest) addNeighbors() {
	around := make([][len(distanceWeights)]float64, len(l.found))
	for i, f := range l.found {
		for j := i + 1; j < len(l.found) && j < i+len(distanceWeights); j++ {
			other := l.found[j]
			if apart := other.id - f.id; apart > 0 && apart < int64(len(distanceWeights)) {
				around[i][apart] = max(around[i][apart], other.score)
				around[j][apart] = max(around[j][apart], f.score)
			}
		}
	}
	for i := range l.found {
		for apart, similarity := range around[i] {
			l.found[i].score += distanceWeights[apart] * similarity
		}
	}
}

// scoreAll compares all messages exactly.
func (l *nearest) scoreAll(ctx context.Context, conversations []Conversation) error {
	var all []span
	for _, c := range conversations {
		all = append(all, span{c.ID, 1, c.Messages})
	}
	for _, piece := range pieces(all) {
		text, err := readPiece(ctx, l.q, piece, "vectors", "vector", l.generation)
		if err != nil {
			return err
		}
		eachMessage(text, scaleBytes+len(l.query.values), func(id int64, chunks string) {
			l.found = append(l.found, scored{id, l.query.similarity(chunks)})
		})
	}
	return nil
}

// bySigns returns the messages that have the most signs in common with a query, at most rescored.
func (l *nearest) bySigns(ctx context.Context, cache *signCache, conversations []Conversation, query []uint64) ([]int64, error) {
	list, err := cache.get(ctx, l.q, l.generation, len(l.query.values), conversations)
	var best worstFirst
	for _, s := range list {
		s.compare(query, len(l.query.values), func(id int64, equal int) {
			best.keep(scored{id, float64(equal)}, rescored)
		})
	}
	return best.ids(), err
}

// rescore compares some messages exactly. Only these are found then.
func (l *nearest) rescore(ctx context.Context, ids []int64) error {
	l.found = nil
	slices.Sort(ids)
	text, err := readText(ctx, l.q, `
		SELECT `+db.Either(`group_concat(vector, '')`, `string_agg(vector, '')`)+` FROM `+db.EachID("?")+` j JOIN vectors v ON v.id = j.value WHERE v.generation = ?`, db.IDs(ids), l.generation)
	eachMessage(text, scaleBytes+len(l.query.values), func(id int64, chunks string) {
		l.found = append(l.found, scored{id, l.query.similarity(chunks)})
	})
	return err
}

// readText returns the text that a query returns in its only row, "" for NULL.
func readText(ctx context.Context, q db.Querier, query string, args ...any) (string, error) {
	rows, err := db.Short(ctx, q, query, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var text sql.NullString
	for rows.Next() {
		if err := rows.Scan(&text); err != nil {
			return "", err
		}
	}
	return text.String, rows.Err()
}

// span is a part of a conversation: the messages whose seqs are from first to last, both inclusive.
type span struct{ conversation, first, last int64 }

// pieces converts spans to ranges of rows, and divides them into pieces of at most scanRows rows. A range has its first and its
// last row.
func pieces(spans []span) (list [][][2]int64) {
	room := int64(0)
	for _, s := range spans {
		for first := s.first; first <= s.last; {
			if room == 0 {
				list, room = append(list, nil), scanRows
			}
			last := min(s.last, first+room-1)
			piece := &list[len(list)-1]
			*piece = append(*piece, [2]int64{wordindex.RowID(s.conversation, first), wordindex.RowID(s.conversation, last)})
			room -= last - first + 1
			first = last + 1
		}
	}
	return list
}
