package conversation

import (
	"context"
	"database/sql"
)

// A session is searched from its newest messages back, in spans of the index
// that grow: common words are found in the first, and only rare ones, of which
// the index has little to read, are looked for in all. Within a span the
// index is read forwards, since FTS5 seeks backwards in a long list by reading
// all that stands before.

const (
	firstSpan  = 1000 // messages, about as many as most sessions have
	spanGrowth = 4
)

// span is a range of rowids of the index, see rowidOf.
type span struct {
	first, last int64
	mixed       bool // it spans several conversations, and so other sessions'
}

// indexed is a conversation as the index knows it.
type indexed struct{ id, messages int64 }

// spansOf cuts conversations, the newest first, into spans.
func spansOf(conversations []indexed) (list []span) {
	size, room := int64(firstSpan), int64(0)
	for _, c := range conversations {
		begun := len(list) > 0 && room > 0
		for last := c.messages; last > 0; {
			if room == 0 {
				list = append(list, span{last: rowidOf(c.id, last)})
				room, size, begun = size, size*spanGrowth, false
			}
			n := min(last, room)
			s := &list[len(list)-1]
			s.first, s.mixed = rowidOf(c.id, last-n+1), s.mixed || begun
			last, room = last-n, room-n
		}
	}
	return list
}

// indexedOf gives the conversations of a session, or the one of it that has the
// ID, the newest first.
func indexedOf(ctx context.Context, conn *sql.Conn, session int64, id string) (list []indexed, err error) {
	rows, err := conn.QueryContext(ctx, `
		SELECT id, messages FROM conversations
		WHERE session_id = ?1 AND deleted = 0 AND (?2 = '' OR uuid = ?2) ORDER BY id DESC`, session, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c indexed
		if err := rows.Scan(&c.id, &c.messages); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// joined makes all spans but the first one: for what is read anew for each.
func joined(spans []span) []span {
	if len(spans) < 3 {
		return spans
	}
	rest := span{first: spans[len(spans)-1].first, last: spans[1].last}
	rest.mixed = rest.first>>24 != rest.last>>24
	return []span{spans[0], rest}
}
