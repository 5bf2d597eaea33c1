package vectors

import (
	"container/heap"
	"context"
	"database/sql"
	"slices"

	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// Conversation is a conversation to look into, by its row id, and how many messages it has.
type Conversation struct{ ID, Messages int64 }

const (
	// exactValues is how many values of vectors are compared one by one. Where there are more, only the messages whose
	// signs agree best are.
	exactValues = 3_000_000

	// rescored is how many messages are compared exactly among those whose signs agree best.
	rescored = 500

	// scanRows is how many messages are read at once.
	scanRows = 16_384
)

// Nearest returns up to n messages of the conversations whose vectors are the nearest to that of a query, the nearest
// first, by their rows in the index of words. It returns none if the vectors are of another length.
func (v *Vectors) Nearest(ctx context.Context, q db.Querier, conversations []Conversation, query []float32, n int) ([]int64, error) {
	s, err := read(ctx, q)
	if err != nil || s.generation == 0 || s.length != int64(len(query)) {
		return nil, err
	}
	quantised, ok := quantise(query)
	if !ok {
		return nil, nil
	}
	look := nearest{q: q, generation: s.generation, query: quantised}
	var messages int64
	for _, c := range conversations {
		messages += c.Messages
	}
	if messages*s.length <= exactValues {
		err = look.exactly(ctx, conversations)
		look.addNeighbors()
		return look.best(n), err
	}
	agreeing, err := look.bySigns(ctx, v.signs, conversations, appendWords(nil, string(signsOf(query))))
	if err != nil {
		return nil, err
	}
	err = look.again(ctx, agreeing)
	look.addNeighbors()
	return look.best(n), err
}

// nearest is one search under way.
type nearest struct {
	q          db.Querier
	generation Generation
	query      quantised
	found      []near
}

// best returns the messages that are the nearest of those that were found, the nearest first.
func (l *nearest) best(n int) []int64 {
	var kept worstFirst
	for _, f := range l.found {
		kept.keep(f, n)
	}
	return kept.ids()
}

// keep adds a message if it is among the n best.
func (h *worstFirst) keep(m near, n int) {
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
		ids[i] = heap.Pop(h).(near).id
	}
	return ids
}

// isWorse reports whether another message comes before one: it is nearer, or as near and newer.
func (n near) isWorse(other near) bool {
	return n.score < other.score || n.score == other.score && n.id < other.id
}

// worstFirst is a heap of messages, the farthest first. It implements heap.Interface.
type worstFirst []near

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(i, j int) bool { return h[i].isWorse(h[j]) }
func (h worstFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worstFirst) Push(n any)        { *h = append(*h, n.(near)) }
func (h *worstFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// nearness is how much the likeness of a message counts for one beside it, and for the next but one: a question and its answer
// are about the same.
var nearness = [...]float64{1: 1.0 / 2, 2: 1.0 / 4}

// addNeighbors adds to the likeness of each message that of the messages around it, on each distance the nearer one's.
// Messages of one conversation must have been found in their order.
func (l *nearest) addNeighbors() {
	around := make([][len(nearness)]float64, len(l.found))
	for i, f := range l.found {
		for j := i + 1; j < len(l.found) && j < i+len(nearness); j++ {
			other := l.found[j]
			if apart := other.id - f.id; apart > 0 && apart < int64(len(nearness)) {
				around[i][apart] = max(around[i][apart], other.score)
				around[j][apart] = max(around[j][apart], f.score)
			}
		}
	}
	for i := range l.found {
		for apart, likeness := range around[i] {
			l.found[i].score += nearness[apart] * likeness
		}
	}
}

func (l *nearest) exactly(ctx context.Context, conversations []Conversation) error {
	var all []span
	for _, c := range conversations {
		all = append(all, span{c.ID, 1, c.Messages})
	}
	for _, piece := range pieces(all) {
		text, err := readPiece(ctx, l.q, piece, "vectors", "vector", l.generation)
		if err != nil {
			return err
		}
		each(text, scaleBytes+len(l.query.values), func(id int64, chunks string) {
			l.found = append(l.found, near{id, l.query.likeness(chunks)})
		})
	}
	return nil
}

// bySigns returns the messages whose signs agree best with those of a query.
func (l *nearest) bySigns(ctx context.Context, cache *signCache, conversations []Conversation, query []uint64) ([]int64, error) {
	list, err := cache.of(ctx, l.q, l.generation, len(l.query.values), conversations)
	var best worstFirst
	for _, s := range list {
		s.agreements(query, len(l.query.values), func(id int64, agree int) {
			best.keep(near{id, float64(agree)}, rescored)
		})
	}
	return best.ids(), err
}

// again compares some messages exactly, in place of all that were found.
func (l *nearest) again(ctx context.Context, ids []int64) error {
	l.found = nil
	slices.Sort(ids)
	text, err := readText(ctx, l.q, `
		SELECT `+db.Either(`group_concat(vector, '')`, `string_agg(vector, '')`)+` FROM `+db.EachID("?")+` j JOIN vectors v ON v.id = j.value WHERE v.generation = ?`, db.IDs(ids), l.generation)
	each(text, scaleBytes+len(l.query.values), func(id int64, chunks string) {
		l.found = append(l.found, near{id, l.query.likeness(chunks)})
	})
	return err
}

// readText returns the one text that a query gives.
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

// span is a part of a conversation, from one seq to another.
type span struct{ conversation, first, last int64 }

// pieces cuts spans into ranges of rows, and those into pieces of at most scanRows rows.
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
