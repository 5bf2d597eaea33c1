package search

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// A session is searched as a whole. Only if all words of a query are very common, its messages are searched from the newest
// back, in spans of the index that grow. Within a span the index is read forwards: to read backwards, FTS5 would have to read a
// long list of matches from its beginning anyway.

const (
	firstSpan  = 1000 // the number of messages in the first span; most sessions have no more
	spanGrowth = 4    // how many times longer each further span is
)

// span is a range of rows of the index.
type span struct {
	first, last int64 // rows, both inclusive
	mixed       bool  // the span has several conversations, and may have those of other sessions between them
	messages    int64 // the number of messages and pages of files
	newestFirst bool  // if only some matches are read, read the newest
	whole       bool  // the span is everything that is searched, not a part of it
	unordered   bool  // if only some matches are read, read any of them
}

// size says how many rows of the index a conversation has.
type size struct {
	conversation int64 // the id of its row
	messages     int64
	pages        int64 // pages of its files, whose rows come after those of the messages
}

// last returns the last row of a conversation for messages up to a seq. If that is the seq of its last message, the rows
// of pages are included.
func (s size) last(seq int64) int64 {
	if seq == s.messages {
		return wordindex.LastPage(s.conversation)
	}
	return wordindex.RowID(s.conversation, seq)
}

// spansOf divides the rows of conversations, the newest first, into spans, the newest first.
func spansOf(conversations []size) (list []span) {
	length, room := int64(firstSpan), int64(0)
	for _, c := range conversations {
		begun := len(list) > 0 && room > 0
		for last := c.messages; last > 0; {
			if room == 0 {
				list = append(list, span{last: c.last(last)})
				room, length, begun = length, length*spanGrowth, false
			}
			n := min(last, room)
			s := &list[len(list)-1]
			s.first, s.mixed = wordindex.RowID(c.conversation, last-n+1), s.mixed || begun
			s.messages += n
			if last == c.messages {
				s.messages += c.pages
			}
			last, room = last-n, room-n
		}
	}
	return list
}

// sizesOf returns the sizes of a session's conversations, the newest first; if id is not "", only that of the conversation with
// this ID. The database returns them as one text, since a long session has thousands.
func sizesOf(ctx context.Context, conn *sql.Conn, session int64, id string) (list []size, err error) {
	var text sql.NullString
	err = conn.QueryRowContext(ctx, `
		SELECT `+db.Either(`group_concat(id || ' ' || messages || ' ' || pages, ' ')`, `string_agg(id || ' ' || messages || ' ' || pages, ' ')`)+` FROM (
			SELECT id, messages, CASE WHEN EXISTS (SELECT 1 FROM file_pages) THEN -- checked first, since a session may have thousands of conversations
				coalesce((SELECT max(p.id) - (c.id << 24 | ?3) + 1 FROM file_pages p WHERE p.id BETWEEN (c.id << 24 | ?3) AND (c.id << 24 | 16777215)), 0) ELSE 0 END AS pages
			FROM conversations c WHERE session_id = ?1 AND deleted = 0 AND (?2 = '' OR uuid = ?2)) AS own`, session, id, wordindex.FirstPage(0)).Scan(&text)
	if err != nil {
		return nil, err
	}
	numbers, err := numbersIn(text.String)
	if err != nil {
		return nil, err
	}
	for n := range slices.Chunk(numbers, 3) {
		list = append(list, size{conversation: n[0], messages: n[1], pages: n[2]})
	}
	slices.SortFunc(list, func(a, b size) int { return cmp.Compare(b.conversation, a.conversation) })
	return list, nil
}

// numbersIn returns the numbers of a text, which are separated by spaces.
func numbersIn(text string) (list []int64, err error) {
	if text != "" {
		list = make([]int64, 0, 1+strings.Count(text, " "))
	}
	for field := range strings.FieldsSeq(text) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// joined returns one span that covers all spans, which are sorted from the newest to the oldest.
func joined(spans []span) span {
	if len(spans) == 0 {
		return span{}
	}
	s := span{first: spans[len(spans)-1].first, last: spans[0].last, whole: true}
	for _, part := range spans {
		s.messages += part.messages
	}
	s.mixed = wordindex.ConversationOf(s.first) != wordindex.ConversationOf(s.last)
	return s
}
