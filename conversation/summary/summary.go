// Package summary stores summaries of conversations. A summary stands for the beginning of a conversation in the window;
// the messages that it covers are not changed.
//
// To make one, call [Summaries.Stretch] for the messages after the newest summary, let the model summarize both, and store
// the result with [Summaries.Add].
package summary

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Summaries stores the summaries of all conversations. It is safe for concurrent use.
type Summaries struct {
	db  *db.DB
	now func() time.Time
}

// New returns the summaries of a store.
func New(store *conversation.Store) *Summaries { return &Summaries{store.DB(), store.Now} }

// Newest returns the newest summary of a conversation, given by its ID, or the zero value if it has none.
func (s *Summaries) Newest(ctx context.Context, id string) (conversation.Summary, error) {
	return newest(ctx, s.db, id)
}

// Before returns the newest summary of what stands before the conversation's window, or the zero value if there is none.
// Where the window is not chosen yet, that is the newest of all.
func (s *Summaries) Before(ctx context.Context, c conversation.Conversation) (conversation.Summary, error) {
	if c.Window.Start == 0 {
		return s.Newest(ctx, c.ID)
	}
	return newestUpTo(ctx, s.db, c.ID, c.Window.Start-1)
}

func newest(ctx context.Context, q db.Querier, id string) (conversation.Summary, error) {
	return newestUpTo(ctx, q, id, math.MaxInt64)
}

// newestUpTo returns the newest summary that covers no message after a seq.
func newestUpTo(ctx context.Context, q db.Querier, id string, through int64) (sum conversation.Summary, err error) {
	var at int64
	err = q.QueryRowContext(ctx, `
		SELECT s.through, s.content, s.tokens, s.created_at FROM summaries s JOIN conversations c ON c.id = s.conversation_id
		WHERE c.uuid = ? AND c.deleted = 0 AND s.through <= ? ORDER BY s.through DESC LIMIT 1`, id, through).Scan(&sum.Through, &sum.Content, &sum.Tokens, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return conversation.Summary{}, nil
	}
	sum.At = db.FromMillis(at)
	return sum, db.Explain(err)
}

// Stretch is a part of a conversation that can be summarised: whole turns that follow on a summary.
type Stretch struct {
	Conversation string               // ID of the conversation
	After        conversation.Summary // the summary that the stretch follows; zero if it begins with the conversation
	Messages     []conversation.Message
}

// Through returns the seq of the stretch's last message.
func (t Stretch) Through() int64 { return t.Messages[len(t.Messages)-1].Seq }

// Stretch returns the turns that follow on the newest summary of a conversation and end before a seq, up to a number of
// tokens, but at least one turn if there is any.
func (s *Summaries) Stretch(ctx context.Context, id string, before int64, tokens int) (Stretch, error) {
	t := Stretch{Conversation: id}
	var err error
	if t.After, err = s.Newest(ctx, id); err != nil {
		return t, err
	}
	whole := 0 // messages of whole turns
	for m, err := range conversation.ReadMessages(ctx, s.db, `
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
			AND seq > ? AND seq < ? AND `+turns.Visible+` ORDER BY seq`, id, t.After.Through, before) {
		if err != nil {
			return t, db.Explain(err)
		}
		if n := len(t.Messages); n > 0 && m.StartsTurn(&t.Messages[n-1]) {
			whole = n
		}
		if m.State != conversation.LeftOut {
			tokens -= m.Tokens
		}
		if tokens < 0 && whole > 0 {
			t.Messages = t.Messages[:whole]
			return t, nil
		}
		t.Messages = append(t.Messages, m)
	}
	return t, nil
}

// Add stores a summary of a stretch and of the summary that it follows on. It stores nothing, and reports false, if the
// conversation has changed meanwhile: messages of the stretch were taken back, or another process has summarised them.
func (s *Summaries) Add(ctx context.Context, t Stretch, content string, tokens int) (stored bool, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		stored = false
		latest, err := newest(ctx, tx, t.Conversation)
		if err != nil || latest.Through != t.After.Through {
			return err
		}
		var n int
		err = tx.QueryRowContext(ctx, `
			SELECT count(*) FROM messages WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
				AND seq > ? AND seq <= ? AND `+turns.Visible, t.Conversation, t.After.Through, t.Through()).Scan(&n)
		if err != nil || n != len(t.Messages) {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO summaries (conversation_id, through, content, tokens, created_at)
			SELECT id, ?, ?, ?, ? FROM conversations WHERE uuid = ?`, t.Through(), db.Text(content), tokens, db.Millis(s.now()), t.Conversation)
		stored = err == nil
		return err
	})
	return stored, err
}

// Drop deletes the summaries of a conversation that cover the message with a seq.
func (s *Summaries) Drop(ctx context.Context, id string, seq int64) error {
	return s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			DELETE FROM summaries WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ?) AND through >= ?`, id, seq)
		return err
	})
}
