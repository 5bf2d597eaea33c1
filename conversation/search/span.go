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
	mixed       bool  // it has several conversations, and perhaps those of other sessions between them
	messages    int64 // and pages of files
	newestFirst bool  // where only some matches are read, they are the newest
	whole       bool  // it is all that the searched sessions have, and not a part of it
	unordered   bool  // where only some matches are read, they may be any
}

// size is how many messages a conversation has.
type size struct {
	conversation, messages int64
	pages                  int64 // of its files, behind the messages
}

// last returns the row of the last message of a conversation up to a seq, and behind all
// messages that of its last page.
func (s size) last(seq int64) int64 {
	if seq == s.messages {
		return wordindex.LastPage(s.conversation)
	}
	return wordindex.RowID(s.conversation, seq)
}

// spansOf cuts conversations, the newest first, into spans.
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

// sizesOf returns the sizes of a session's conversations, or of the one that has the ID, the newest first. They come as one
// text, since a long session has thousands.
func sizesOf(ctx context.Context, conn *sql.Conn, session int64, id string) (list []size, err error) {
	var text sql.NullString
	err = conn.QueryRowContext(ctx, `
		SELECT `+db.Either(`group_concat(id || ' ' || messages || ' ' || pages, ' ')`, `string_agg(id || ' ' || messages || ' ' || pages, ' ')`)+` FROM (
			SELECT id, messages, CASE WHEN EXISTS (SELECT 1 FROM file_pages) THEN -- else a long session would look a thousand times in vain
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

// numbersIn returns the numbers of a text, which stand between blanks.
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

// joined returns one span of all spans, the newest of which comes first.
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
