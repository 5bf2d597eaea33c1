package search

import (
	"context"
	"database/sql"

	"parley/conversation/internal/wordindex"
)

// A session is searched from its newest messages back, in spans of the index that grow. Common words are found in the
// first span; only rare ones, of which the index has little to read, are looked for in all. Within a span the index is
// read forwards, since FTS5 reads a long list from its beginning also when it seeks backwards.

const (
	firstSpan  = 1000 // messages, about as many as most sessions have
	spanGrowth = 4
)

// span is a range of rows of the index.
type span struct {
	first, last int64
	mixed       bool // it has several conversations, and perhaps those of other sessions between them
}

// size is how many messages a conversation has.
type size struct{ conversation, messages int64 }

// spansOf cuts conversations, the newest first, into spans.
func spansOf(conversations []size) (list []span) {
	length, room := int64(firstSpan), int64(0)
	for _, c := range conversations {
		begun := len(list) > 0 && room > 0
		for last := c.messages; last > 0; {
			if room == 0 {
				list = append(list, span{last: wordindex.RowID(c.conversation, last)})
				room, length, begun = length, length*spanGrowth, false
			}
			n := min(last, room)
			s := &list[len(list)-1]
			s.first, s.mixed = wordindex.RowID(c.conversation, last-n+1), s.mixed || begun
			last, room = last-n, room-n
		}
	}
	return list
}

// sizesOf returns the sizes of a session's conversations, or of the one that has the ID, the newest first.
func sizesOf(ctx context.Context, conn *sql.Conn, session int64, id string) (list []size, err error) {
	rows, err := conn.QueryContext(ctx, `
		SELECT id, messages FROM conversations
		WHERE session_id = ?1 AND deleted = 0 AND (?2 = '' OR uuid = ?2) ORDER BY id DESC`, session, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c size
		if err := rows.Scan(&c.conversation, &c.messages); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// joinRest joins all spans but the first into one, for what the index would read anew for each.
func joinRest(spans []span) []span {
	if len(spans) < 3 {
		return spans
	}
	rest := span{first: spans[len(spans)-1].first, last: spans[1].last}
	rest.mixed = wordindex.ConversationOf(rest.first) != wordindex.ConversationOf(rest.last)
	return []span{spans[0], rest}
}
