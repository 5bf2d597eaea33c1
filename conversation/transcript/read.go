package transcript

import (
	"context"
	"fmt"
	"iter"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Newest returns the seq where the newest part of a conversation begins that has at most
// so many bytes of text, with tool calls and their results, but at least one message. Only
// messages that people see count. older is how many of them come before it. The seq is 0
// if there are none.
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
	Place(ctx context.Context, key conversation.Key) (string, error)
	AllMessages(ctx context.Context, q conversation.MessageQuery) iter.Seq2[conversation.Message, error]
}

// Read returns what a transcript is made of: the conversation, what people call its
// place ("" if that is not known), and the messages that people see, oldest first. If the
// conversation was deleted, the error is conversation.ErrNotFound; if that happens while
// the messages are read, the last pair has the error.
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
		if last < t.Through { // seqs have no gaps
			yield(conversation.Message{}, fmt.Errorf("the transcript of %s: %w", t.Conversation, conversation.ErrNotFound))
		}
	}
}
