package conversation

import (
	"context"
	"iter"
	"math"

	"parley/conversation/internal/db"
)

// Record is a message as the archive holds it, with what keeps it from being
// shown.
type Record struct {
	Message
	State string // "", "stopped", "replaced", "undone": why it is not an ordinary one
}

// Hidden says that people don't see the message where they read a
// conversation.
func (r Record) Hidden() bool { return r.Internal || r.State != "" && r.State != stateStopped }

const (
	recordsPage  = 200     // messages that are read at once
	recordsBytes = 1 << 20 // of text, which the last of them may pass
)

// Records gives all of a conversation, oldest first, also what is no longer
// shown. It reads page by page and keeps nothing open in between, so that
// neither memory nor the database's log grow with the conversation. The error
// comes with the last pair.
func (s *Store) Records(ctx context.Context, conversation string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for after := int64(0); ; {
			page, err := s.records(ctx, conversation, after, math.MaxInt64)
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

// records is the page that follows a message, up to another.
func (s *Store) records(ctx context.Context, conversation string, after, through int64) ([]Record, error) {
	rows, err := s.db.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0) AND seq > ? AND seq <= ?
		ORDER BY seq LIMIT ?`, conversation, after, through, recordsPage)
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
