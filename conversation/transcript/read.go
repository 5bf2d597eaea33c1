package transcript

import (
	"context"
	"fmt"
	"iter"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Newest returns the seq of the message from which on the messages of a conversation
// that people see have at most so many bytes of text, tool calls and results among
// them; that of the newest message where it alone has more. older is how many of them
// stand before it. It is 0 where there is nothing to see.
func Newest(ctx context.Context, store *conversation.Store, c conversation.Conversation, bytes int64) (from, older int64, err error) {
	rows, err := store.DB().QueryContext(ctx, `
		SELECT seq, octet_length(content) + coalesce(octet_length(tool_calls), 0) FROM messages
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ?) AND `+turns.InTalk+` ORDER BY seq DESC`, c.ID)
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

// Source is what a transcript is read from, such as a conversation.Store.
type Source interface {
	Conversation(ctx context.Context, id string) (conversation.Conversation, error)
	Session(ctx context.Context, key conversation.Key) (conversation.Session, error)
	AllMessages(ctx context.Context, q conversation.MessageQuery) iter.Seq2[conversation.Message, error]
}

// Read returns what a transcript is made of: its conversation, what people call the
// place, "" when nobody said, and of its messages those that people see, oldest first.
// The error is conversation.ErrNotFound when the conversation was deleted, which may
// also come with the last pair.
func Read(ctx context.Context, source Source, t conversation.Transcript) (c conversation.Conversation, place string, seen iter.Seq2[conversation.Message, error], err error) {
	var session conversation.Session
	if c, err = source.Conversation(ctx, t.Conversation); err == nil {
		session, err = source.Session(ctx, c.Key)
	}
	if err != nil {
		return c, "", nil, fmt.Errorf("the transcript of %s: %w", t.Conversation, err)
	}
	return c, session.Place, read(ctx, source, t), nil
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
		if last < t.Through { // seqs have no gaps
			yield(conversation.Message{}, fmt.Errorf("the transcript of %s: %w", t.Conversation, conversation.ErrNotFound))
		}
	}
}
