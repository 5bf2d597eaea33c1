package search

import (
	"context"
	"database/sql"

	"parley/conversation/internal/wordindex"
)

// A session is searched as a whole. Only where all words of a query are very common, its newest messages are searched
// first, in spans of the index that grow. Within a span the index is read forwards, since FTS5 reads a long list from
// its beginning also when it seeks backwards.

const (
	firstSpan  = 1000 // messages, about as many as most sessions have
	spanGrowth = 4
)

// span is a range of rows of the index.
type span struct {
	first, last int64
	mixed       bool // it has several conversations, and perhaps those of other sessions between them
	messages    int64
	newestFirst bool // where only some matches are read, they are the newest
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
			s.messages += n
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

// joined returns one span of all spans, the newest of which comes first.
func joined(spans []span) span {
	if len(spans) == 0 {
		return span{}
	}
	s := span{first: spans[len(spans)-1].first, last: spans[0].last}
	for _, part := range spans {
		s.messages += part.messages
	}
	s.mixed = wordindex.ConversationOf(s.first) != wordindex.ConversationOf(s.last)
	return s
}
