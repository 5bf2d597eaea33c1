package conversation

import (
	"context"
	"fmt"
	"iter"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Transcript is a conversation as a file that goes along with a reply. It names
// the messages and does not hold them: its bytes are made when it is sent.
type Transcript struct {
	Name         string `json:"name"`         // of the file, without a folder
	Conversation string `json:"conversation"` // ID
	Format       string `json:"format"`       // as the package transcript names it
	From         int64  `json:"from"`         // seq of the first message
	Through      int64  `json:"through"`      // seq of the last
}

// Newest is the seq from which on the messages of a conversation that people
// see have at most so many bytes of text, tool calls and results among them;
// that of the newest one where it alone has more. older is how many of them
// stand before it. It is 0 where there is nothing to be seen.
func (s *Store) Newest(ctx context.Context, c Conversation, bytes int64) (from, older int64, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT seq, octet_length(content) + coalesce(octet_length(tool_calls), 0) FROM messages
		WHERE conversation_id = ? AND `+turns.InTalk+` ORDER BY seq DESC`, c.row)
	if err != nil {
		return 0, 0, db.Explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var seq, size int64
		if err := rows.Scan(&seq, &size); err != nil {
			return 0, 0, err
		}
		if bytes -= size; older > 0 || bytes < 0 && from > 0 {
			older++
			continue
		}
		from = seq
	}
	return from, older, db.Explain(rows.Err())
}

// ReadTranscript gives what a transcript is made of: its conversation, what
// people call the place, "" when nobody said, and of its messages those that
// people see, oldest first. The error is ErrNotFound when the conversation was
// deleted, which may also come with the last pair.
func (s *Store) ReadTranscript(ctx context.Context, t Transcript) (c Conversation, place string, seen iter.Seq2[Record, error], err error) {
	c, err = scanConversation(s.db.QueryRowContext(ctx, selectConversations+`WHERE c.uuid = ? AND c.deleted = 0`, t.Conversation), &place)
	if err != nil {
		return c, "", nil, db.Explain(fmt.Errorf("the transcript of %s: %w", t.Conversation, notFound(err)))
	}
	return c, place, s.seen(ctx, t), nil
}

// seen gives the messages of a transcript that people see.
func (s *Store) seen(ctx context.Context, t Transcript) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for after := t.From - 1; after < t.Through; {
			page, err := s.records(ctx, t.Conversation, after, t.Through)
			if err == nil && len(page) == 0 { // its seqs have no gaps
				err = fmt.Errorf("the transcript of %s: %w", t.Conversation, ErrNotFound)
			}
			if err != nil {
				yield(Record{}, db.Explain(err))
				return
			}
			for _, r := range page {
				if !r.Hidden() && !yield(r, nil) {
					return
				}
			}
			after = page[len(page)-1].Seq
		}
	}
}
