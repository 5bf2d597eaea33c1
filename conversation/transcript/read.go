package transcript

import (
	"context"
	"fmt"
	"iter"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Newest finds the newest messages of a conversation whose text, tool calls and results have
// at most a number of bytes together; it always includes the newest message. It returns the
// seq of the first of them, and the number of older messages. Only messages that people see
// count. from is 0 if there are none.
func Newest(ctx context.Context, store *conversation.Store, c conversation.Conversation, bytes int64) (from, older int64, err error) {
	rows, err := store.DB().QueryContext(ctx, `
		SELECT seq, octet_length(content) + coalesce(octet_length(tool_calls), 0) FROM messages
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ?) AND `+turns.Visible+` ORDER BY seq DESC`, c.ID)
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

// Source has the methods of conversation.Store that Read needs.
type Source interface {
	Conversation(ctx context.Context, id string) (conversation.Conversation, error)
	Place(ctx context.Context, key conversation.Key) (string, error)
	AllMessages(ctx context.Context, q conversation.MessageQuery) iter.Seq2[conversation.Message, error]
}

// Read returns the parts of a transcript: the conversation, the name that people know its
// session by ("" if there is none), and the messages that people see, the oldest first. If
// the conversation was deleted, the error is conversation.ErrNotFound. If it is deleted while
// the messages are read, the last pair of seen has that error.
func Read(ctx context.Context, source Source, t conversation.Transcript) (c conversation.Conversation, place string, seen iter.Seq2[conversation.Message, error], err error) {
	if c, err = source.Conversation(ctx, t.Conversation); err == nil {
		place, err = source.Place(ctx, c.Key)
	}
	if err != nil {
		return c, "", nil, fmt.Errorf("the transcript of %s: %w", t.Conversation, err)
	}
	return c, place, read(ctx, source, t), nil
}

// read returns the messages of a transcript that people see.
func read(ctx context.Context, source Source, t conversation.Transcript) iter.Seq2[conversation.Message, error] {
	return func(yield func(conversation.Message, error) bool) {
		last := t.From - 1
		for m, err := range source.AllMessages(ctx, conversation.MessageQuery{
			Conversation: t.Conversation, View: conversation.ViewAll, After: last, Before: t.Through + 1,
		}) {
			if last = m.Seq; err != nil || !m.Hidden() {
				if !yield(m, err) || err != nil {
					return
				}
			}
		}
		if last < t.Through { // seqs have no gaps, so the conversation was deleted
			yield(conversation.Message{}, fmt.Errorf("the transcript of %s: %w", t.Conversation, conversation.ErrNotFound))
		}
	}
}
