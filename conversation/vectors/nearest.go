package vectors

import (
	"container/heap"
	"context"
	"database/sql"
	"encoding/json"
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
func Nearest(ctx context.Context, q db.Querier, conversations []Conversation, query []float32, n int) ([]int64, error) {
	s, err := read(ctx, q)
	if err != nil || s.generation == 0 || s.length != int64(len(query)) {
		return nil, err
	}
	quantised, ok := quantise(query)
	if !ok {
		return nil, nil
	}
	look := nearest{q: q, generation: s.generation, query: quantised, signs: string(signsOf(query))}
	var messages int64
	for _, c := range conversations {
		messages += c.Messages
	}
	if messages*s.length <= exactValues {
		err = look.exactly(ctx, conversations)
		look.addNeighbors()
		return look.best(n), err
	}
	if err := look.bySigns(ctx, conversations); err != nil {
		return nil, err
	}
	err = look.again(ctx, look.best(rescored))
	look.addNeighbors()
	return look.best(n), err
}

// nearest is one search under way.
type nearest struct {
	q          db.Querier
	generation Generation
	query      quantised
	signs      string // of the query
	found      []near
}

// best returns the messages that are the nearest of those that were found, the nearest first.
func (l *nearest) best(n int) []int64 {
	var kept worstFirst
	for _, f := range l.found {
		switch {
		case len(kept) < n:
			heap.Push(&kept, f)
		case n > 0 && kept[0].isWorse(f):
			kept[0] = f
			heap.Fix(&kept, 0)
		}
	}
	ids := make([]int64, len(kept))
	for i := len(ids) - 1; i >= 0; i-- {
		ids[i] = heap.Pop(&kept).(near).id
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

// neighborWeight is how much the nearer of the two messages beside one counts for it: a question and its answer are about
// the same.
const neighborWeight = 0.25

// addNeighbors adds to the likeness of each message that of the messages beside it. Those that follow each other must
// have been found in their order.
func (l *nearest) addNeighbors() {
	alone := make([]float64, len(l.found))
	for i, f := range l.found {
		alone[i] = f.score
	}
	for i := range l.found {
		beside := 0.0
		if i > 0 && l.found[i-1].id+1 == l.found[i].id {
			beside = max(beside, alone[i-1])
		}
		if i+1 < len(l.found) && l.found[i].id+1 == l.found[i+1].id {
			beside = max(beside, alone[i+1])
		}
		l.found[i].score += neighborWeight * beside
	}
}

func (l *nearest) exactly(ctx context.Context, conversations []Conversation) error {
	return l.scan(ctx, conversations, "vectors", "vector", func(text string) {
		each(text, scaleBytes+len(l.query.values), func(id int64, chunks string) {
			l.found = append(l.found, near{id, l.query.likeness(chunks)})
		})
	})
}

func (l *nearest) bySigns(ctx context.Context, conversations []Conversation) error {
	return l.scan(ctx, conversations, "vector_signs", "signs", func(text string) {
		each(text, len(l.signs), func(id int64, chunks string) {
			l.found = append(l.found, near{id, agreement(l.signs, chunks, len(l.query.values))})
		})
	})
}

// again compares some messages exactly, in place of all that were found.
func (l *nearest) again(ctx context.Context, ids []int64) error {
	l.found = nil
	slices.Sort(ids)
	text, err := l.text(ctx, `
		SELECT group_concat(vector, '') FROM json_each(?) j JOIN vectors v ON v.id = j.value WHERE v.generation = ?`, db.IDs(ids), l.generation)
	each(text, scaleBytes+len(l.query.values), func(id int64, chunks string) {
		l.found = append(l.found, near{id, l.query.likeness(chunks)})
	})
	return err
}

// scan passes what a table has of the conversations to do, in pieces of many messages.
func (l *nearest) scan(ctx context.Context, conversations []Conversation, table, column string, do func(text string)) error {
	for _, piece := range pieces(conversations) {
		ranges, err := json.Marshal(piece)
		if err != nil {
			return err
		}
		text, err := l.text(ctx, `
			SELECT group_concat(`+column+`, '') FROM json_each(?) j CROSS JOIN `+table+` v
			WHERE v.id BETWEEN j.value ->> 0 AND j.value ->> 1 AND v.generation = ?`, string(ranges), l.generation)
		if err != nil {
			return err
		}
		do(text)
	}
	return nil
}

// text returns the one text that a query gives.
func (l *nearest) text(ctx context.Context, query string, args ...any) (string, error) {
	rows, err := db.Short(ctx, l.q, query, args...)
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

// pieces cuts conversations into ranges of rows, and those into pieces of at most scanRows rows.
func pieces(conversations []Conversation) (list [][][2]int64) {
	room := int64(0)
	for _, c := range conversations {
		for first := int64(1); first <= c.Messages; {
			if room == 0 {
				list, room = append(list, nil), scanRows
			}
			last := min(c.Messages, first+room-1)
			piece := &list[len(list)-1]
			*piece = append(*piece, [2]int64{wordindex.RowID(c.ID, first), wordindex.RowID(c.ID, last)})
			room -= last - first + 1
			first = last + 1
		}
	}
	return list
}
