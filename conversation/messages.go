package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"
	"slices"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
	"parley/conversation/metadata"
)

// View chooses which messages of a conversation are read.
type View string

const (
	ViewPeople View = "people" // what people and the assistant have said, as it is read in a chat
	ViewTalk   View = "talk"   // the same, and the tool calls with their results
	ViewAll    View = "all"    // everything that is kept: internal, replaced and undone messages too
)

// condition returns the SQL condition that a view has a row of messages.
func (v View) condition() string {
	switch v {
	case ViewAll:
		return `true`
	case ViewTalk:
		return turns.Visible
	}
	return turns.Visible + ` AND messages.role <> 'tool' AND messages.content <> ''`
}

// has reports whether a view has a message.
func (v View) has(m *Message) bool {
	switch v {
	case ViewAll:
		return true
	case ViewTalk:
		return !m.Hidden()
	}
	return !m.Hidden() && m.Role != RoleTool && (m.Content != "" || len(m.Images) > 0)
}

// MessageQuery chooses messages of a conversation. A page is limited either in
// messages or in whole turns.
type MessageQuery struct {
	Conversation string          // ID
	View         View            // "" = ViewPeople
	After        int64           // only messages after this seq
	Before       int64           // only messages before this seq; 0 = up to the newest
	Forward      bool            // the page begins with the oldest of them; else it ends with the newest
	Metadata     metadata.Filter // only messages with this metadata; the whole conversation may be searched for them

	Limit     int // messages on a page, 0 = no limit; a page ends earlier after 1 MiB of text
	Turns     int // whole turns on a page, instead of Limit; not with Metadata
	SkipTurns int // with Turns: turns that are passed over before the page begins
}

// check returns ErrInvalid for a query that asks for what can't be combined.
func (q MessageQuery) check() error {
	switch {
	case q.Turns < 0 || q.SkipTurns < 0:
		return fmt.Errorf("%w: a number of turns is negative", ErrInvalid)
	case q.Turns == 0 && q.SkipTurns > 0:
		return fmt.Errorf("%w: turns are skipped on a page that is not limited in turns", ErrInvalid)
	case q.Turns > 0 && (q.Limit > 0 || len(q.Metadata) > 0):
		return fmt.Errorf("%w: a page in turns is limited in messages, or filtered by metadata", ErrInvalid)
	}
	return nil
}

// Page is a part of a conversation.
type Page struct {
	Messages []Message // oldest first
	More     bool      // the query has others: after these with Forward, else before them
}

const (
	pageMessages = 200     // messages that AllMessages reads at once
	pageBytes    = 1 << 20 // bytes of text on a page; its last message may exceed them
)

// Messages returns a page of messages, or an empty one where there is no such
// conversation. Its cost grows with the page and the turns that are skipped, and with
// the conversation only if Metadata is set.
func (s *Store) Messages(ctx context.Context, q MessageQuery) (Page, error) {
	if err := q.check(); err != nil {
		return Page{}, err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return Page{}, db.Explain(err)
	}
	defer conn.Close()
	walk, err := q.walk(conn)
	if err != nil {
		return Page{}, err
	}
	reader := pageReader{query: q}
	for m, err := range walk.messages(ctx) {
		if err != nil {
			return Page{}, db.Explain(err)
		}
		if reader.add(m); reader.page.More {
			break
		}
	}
	if !q.Forward {
		slices.Reverse(reader.page.Messages)
	}
	return reader.page, nil
}

// walk returns the walk over the messages of a query, up to one more than the page holds.
func (q MessageQuery) walk(conn db.Querier) (walk, error) {
	filter, err := q.Metadata.Parameter()
	if err != nil {
		return walk{}, err
	}
	condition, query := q.View.condition(), db.Short
	switch {
	case q.Turns > 0 && q.View != ViewAll: // a message without words may stand between two turns
		condition, query = turns.Visible, db.Query
	case q.Turns > 0:
		query = db.Query
	case filter != nil:
		condition += ` AND ` + metadata.Matches(":metadata", "messages.metadata")
		query = db.Query
	}
	return walk{
		conn: conn, query: query, after: q.After, before: cmp.Or(q.Before, math.MaxInt64), forward: q.Forward, most: db.OneMore(q.Limit),
		where: `conversation_id = (SELECT id FROM conversations WHERE uuid = :conversation AND deleted = 0) AND ` + condition,
		args:  []any{sql.Named("conversation", q.Conversation), sql.Named("metadata", filter)},
	}, nil
}

// pageReader collects the messages of a page in the order in which they are read.
type pageReader struct {
	query MessageQuery
	page  Page
	bytes int      // bytes of the text on the page
	turns int      // turns that have been read to their end
	last  *Message // the last message that was read and is part of the talk
}

// add adds the next message, or sets page.More where the page is full before it.
func (r *pageReader) add(m Message) {
	if r.query.Turns > 0 {
		r.countTurn(&m)
		r.page.More = r.turns >= r.query.SkipTurns+r.query.Turns
		if r.turns < r.query.SkipTurns || !r.query.View.has(&m) {
			return
		}
	} else {
		r.page.More = len(r.page.Messages) > 0 && (r.bytes >= pageBytes || len(r.page.Messages) == r.query.Limit)
	}
	if r.page.More {
		return
	}
	r.page.Messages = append(r.page.Messages, m)
	r.bytes += len(m.Content)
}

// countTurn counts the turn that ended before m was read.
func (r *pageReader) countTurn(m *Message) {
	if m.Hidden() {
		return
	}
	if last := r.last; last != nil {
		earlier, later := m, last
		if r.query.Forward {
			earlier, later = last, m
		}
		if later.StartsTurn(earlier) {
			r.turns++
		}
	}
	r.last = m
}

// AllMessages returns an iterator over all messages of a query, oldest first, whatever
// its direction and its limits. It reads page by page and keeps nothing open in between, so
// that neither memory nor the database's log grow with the conversation. An error comes
// with the last pair.
func (s *Store) AllMessages(ctx context.Context, q MessageQuery) iter.Seq2[Message, error] {
	q.Forward, q.Limit, q.Turns, q.SkipTurns = true, pageMessages, 0, 0
	return func(yield func(Message, error) bool) {
		for more := true; more; {
			page, err := s.Messages(ctx, q)
			if err != nil {
				yield(Message{}, err)
				return
			}
			for _, m := range page.Messages {
				if !yield(m, nil) {
					return
				}
				q.After = m.Seq
			}
			more = page.More
		}
	}
}

// walk reads messages of a conversation in the order of their seq until its caller has enough.
type walk struct {
	conn          db.Querier
	query         func(ctx context.Context, q db.Querier, query string, args ...any) (*sql.Rows, error)
	where         string // condition of the query
	args          []any  // named arguments of where
	after, before int64  // only messages with a seq between these
	forward       bool   // read from the oldest on; else from the newest
	page          int    // messages that are read at first; 0 = firstPage
	most          int    // messages that the caller takes at most
}

// The number of messages that a statement reads. A server sends all that a statement finds, also when the caller stops, so
// each page is only twice as long as the one before.
const (
	firstPage   = 100
	longestPage = 2000
)

// messages returns the messages. An error comes with the last pair.
func (w walk) messages(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for page := max(w.page, firstPage); ; page = min(2*page, longestPage) {
			limit := min(page, w.most)
			read, goesOn := w.read(ctx, limit, yield)
			if w.most -= read; !goesOn || read < limit || w.most == 0 {
				return
			}
		}
	}
}

// read reads a page, and moves the walk behind it. It returns how many messages that are, and whether the caller wants more.
func (w *walk) read(ctx context.Context, limit int, yield func(Message, error) bool) (read int, goesOn bool) {
	direction := ` DESC`
	if w.forward {
		direction = ``
	}
	rows, err := w.query(ctx, w.conn, selectMessages+`
		WHERE `+w.where+` AND seq > :after AND seq < :before ORDER BY seq`+direction+` LIMIT :limit`,
		slices.Concat(w.args, []any{sql.Named("after", w.after), sql.Named("before", w.before), sql.Named("limit", limit)})...)
	if err != nil {
		yield(Message{}, err)
		return 0, false
	}
	defer rows.Close()
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			yield(Message{}, err)
			return read, false
		}
		if read++; w.forward {
			w.after = m.Seq
		} else {
			w.before = m.Seq
		}
		if !yield(m, nil) {
			return read, false
		}
	}
	if err := rows.Err(); err != nil {
		yield(Message{}, err)
		return read, false
	}
	return read, true
}
