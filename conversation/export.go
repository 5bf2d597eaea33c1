package conversation

import (
	"context"
	"iter"
)

// Record is a message as the archive holds it, with what keeps it from being
// shown.
type Record struct {
	Message
	State    string // "", "stopped", "replaced": why it is not an ordinary one
	Internal bool   // for the gateway's own use
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
			page, err := s.records(ctx, conversation, after)
			if err != nil {
				yield(Record{}, explain(err))
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

// records is the page that follows a message.
func (s *Store) records(ctx context.Context, conversation string, after int64) ([]Record, error) {
	rows, err := s.readers.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0) AND seq > ?
		ORDER BY seq LIMIT ?`, conversation, after, recordsPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []Record
	for size := 0; size < recordsBytes && rows.Next(); {
		m, err := scanMessage(rows)
		if err != nil {
			return nil, err
		}
		page = append(page, Record{Message: m})
		size += len(m.Content)
	}
	if err := rows.Err(); err != nil || len(page) == 0 {
		return nil, err
	}
	return page, s.addStates(ctx, conversation, page)
}

// addStates tells the messages of a page that are not ordinary ones.
func (s *Store) addStates(ctx context.Context, conversation string, page []Record) error {
	first := page[0].Seq
	rows, err := s.readers.QueryContext(ctx, `
		SELECT seq, state, internal FROM messages
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
			AND seq BETWEEN ? AND ? AND (state <> '' OR internal <> 0)`, conversation, first, page[len(page)-1].Seq)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var state string
		var internal bool
		if err := rows.Scan(&seq, &state, &internal); err != nil {
			return err
		}
		r := &page[seq-first] // seqs have no gaps
		r.State, r.Internal = state, internal
	}
	return rows.Err()
}
