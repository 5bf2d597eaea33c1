package conversation

import (
	"context"
	"database/sql"
	"slices"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

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

// condition is what a view asks of a row.
func (v View) condition() string {
	switch v {
	case ViewAll:
		return `1`
	case ViewTalk:
		return turns.InTalk
	}
	return turns.InTalk + ` AND messages.role <> 'tool' AND messages.content <> ''`
}

// RecordPage gives a stretch of a conversation, always oldest first. more says
// that the query has others: behind the page with Forward, else before it. The
// cost grows with the page, but where Metadata is asked for.
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
