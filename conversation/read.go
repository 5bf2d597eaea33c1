package conversation

import (
	"context"
	"database/sql"
	"iter"
	"slices"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Page is a part of a conversation as people read it.
type Page struct {
	Messages []Message // of users and the assistant, oldest first, whole turns
	Older    bool      // there are turns before these
}

// History returns the newest turns of a conversation, at most limit, after the skip newest ones. It leaves out replaced
// answers, what was taken back, internal messages and tool results. The cost grows with skip and limit, not with the
// conversation.
func (s *Store) History(ctx context.Context, conversation string, skip, limit int) (Page, error) {
	rows, err := s.db.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
			AND `+turns.InTalk+` ORDER BY seq DESC`, conversation)
	if err != nil {
		return Page{}, db.Explain(err)
	}
	defer rows.Close()
	var newest []Message
	var newer *Message
	exchanges := 0 // whose first message was passed
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return Page{}, err
		}
		if newer != nil && StartsTurn(&m, newer) {
			exchanges++
		}
		newer = &m
		if exchanges >= skip+limit {
			return Page{Messages: oldestFirst(newest), Older: true}, nil
		}
		if exchanges >= skip && m.Role != RoleTool && m.Content != "" {
			newest = append(newest, m)
		}
	}
	return Page{Messages: oldestFirst(newest)}, db.Explain(rows.Err())
}

// View is which messages of a conversation are asked for.
type View string

const (
	ViewPeople View = "people" // what people and the assistant have said, as it is read in a chat
	ViewTalk   View = "talk"   // that, and the tool calls with their results
	ViewAll    View = "all"    // all that is kept: also internal ones, and what was answered anew or taken back
)

// RecordQuery chooses messages of a conversation.
type RecordQuery struct {
	Conversation string // ID
	View         View   // "" = ViewPeople
	After        int64  // only those behind this seq
	Before       int64  // only those before this seq; 0 = up to the newest
	Forward      bool   // begin with the oldest of them; else with the newest
	Metadata     Filter // which the whole conversation may be searched for
	Limit        int    // at most so many, 0 = none; fewer where they have much text
}

// condition returns the SQL condition on a row of messages that a view has it.
func (v View) condition() string {
	switch v {
	case ViewAll:
		return `1`
	case ViewTalk:
		return turns.InTalk
	}
	return turns.InTalk + ` AND messages.role <> 'tool' AND messages.content <> ''`
}

// RecordPage returns a page of messages, always oldest first. more reports whether the query has others: behind the page
// with Forward, else before it. The cost grows with the page, except with Metadata.
func (s *Store) RecordPage(ctx context.Context, q RecordQuery) (page []Record, more bool, err error) {
	filter, err := q.Metadata.parameter()
	if err != nil {
		return nil, false, err
	}
	direction := ` DESC`
	if q.Forward {
		direction = ``
	}
	condition, query := q.View.condition(), db.Short
	if filter != nil {
		condition += ` AND ` + metadataMatches("messages.metadata", ":metadata")
		query = db.Query
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, false, db.Explain(err)
	}
	defer conn.Close()
	rows, err := query(ctx, conn, selectMessages+`
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = :conversation AND deleted = 0)
			AND seq > :after AND (:before = 0 OR seq < :before) AND `+condition+` ORDER BY seq`+direction+` LIMIT :limit`,
		sql.Named("conversation", q.Conversation), sql.Named("after", q.After), sql.Named("before", q.Before),
		sql.Named("metadata", filter), sql.Named("limit", oneMore(q.Limit)))
	if err != nil {
		return nil, false, db.Explain(err)
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		if more = len(page) > 0 && (size >= recordsBytes || len(page) == q.Limit); more {
			break
		}
		r, err := scanRecord(rows)
		if err != nil {
			return nil, false, err
		}
		page = append(page, r)
		size += len(r.Content)
	}
	if !q.Forward {
		slices.Reverse(page)
	}
	return page, more, db.Explain(rows.Err())
}

// Record is a message as it is stored, with the state that keeps it from being shown.
type Record struct {
	Message
	State string // "", "stopped", "replaced", "undone": why it is not an ordinary one
}

// Hidden reports whether the message is left out where people read a conversation.
func (r Record) Hidden() bool { return r.Internal || r.State != "" && r.State != stateStopped }

const (
	recordsPage  = 200     // messages that are read at once
	recordsBytes = 1 << 20 // of their text; the last of them may exceed it
)

// Records returns all messages of a conversation, oldest first, also those that are no longer shown. It reads page by
// page and keeps nothing open in between, so that neither memory nor the database's log grow with the conversation. An
// error comes with the last pair.
func (s *Store) Records(ctx context.Context, conversation string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for after := int64(0); ; {
			page, err := s.records(ctx, conversation, after)
			if err != nil {
				yield(Record{}, db.Explain(err))
				return
			}
			if len(page) == 0 {
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			after = page[len(page)-1].Seq
		}
	}
}

// records returns the page that follows on a message.
func (s *Store) records(ctx context.Context, conversation string, after int64) ([]Record, error) {
	rows, err := s.db.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0) AND seq > ?
		ORDER BY seq LIMIT ?`, conversation, after, recordsPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []Record
	for size := 0; size < recordsBytes && rows.Next(); {
		r, err := scanRecord(rows)
		if err != nil {
			return nil, err
		}
		page = append(page, r)
		size += len(r.Content)
	}
	return page, rows.Err()
}
