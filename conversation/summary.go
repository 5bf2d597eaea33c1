package conversation

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Summary stands for the beginning of a conversation in the window. The messages
// that it covers stay as they are.
type Summary struct {
	Through int64 // seq of the last message that it covers; 0 = there is no summary
	Content string
	Tokens  int
	At      time.Time
}

// Summary is the newest summary of a conversation, the zero value when it has none.
func (s *Store) Summary(ctx context.Context, conversation string) (Summary, error) {
	return newestSummary(ctx, s.db, conversation)
}

func newestSummary(ctx context.Context, q db.Querier, conversation string) (sum Summary, err error) {
	var at int64
	err = q.QueryRowContext(ctx, `
		SELECT s.through, s.content, s.tokens, s.created_at FROM summaries s JOIN conversations c ON c.id = s.conversation_id
		WHERE c.uuid = ? AND c.deleted = 0 ORDER BY s.through DESC LIMIT 1`, conversation).Scan(&sum.Through, &sum.Content, &sum.Tokens, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return Summary{}, nil
	}
	sum.At = db.FromMillis(at)
	return sum, db.Explain(err)
}

// Stretch is a part of a conversation that can be summarised: whole exchanges
// that follow on a summary, and their messages.
type Stretch struct {
	Conversation string // ID
	After        Summary
	Messages     []Message
}

// Through is the seq of the stretch's last message.
func (t Stretch) Through() int64 { return t.Messages[len(t.Messages)-1].Seq }

// Stretch reads the exchanges that follow on the newest summary of a
// conversation and end before a seq, up to so many tokens, but always one if
// there is any.
func (s *Store) Stretch(ctx context.Context, conversation string, before int64, tokens int) (Stretch, error) {
	t := Stretch{Conversation: conversation}
	var err error
	if t.After, err = s.Summary(ctx, conversation); err != nil {
		return t, err
	}
	rows, err := s.db.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
			AND seq > ? AND seq < ? AND `+turns.InTalk+` ORDER BY seq`, conversation, t.After.Through, before)
	if err != nil {
		return t, db.Explain(err)
	}
	defer rows.Close()
	whole := 0 // messages of whole exchanges
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return t, err
		}
		if n := len(t.Messages); n > 0 && StartsTurn(&t.Messages[n-1], &m) {
			whole = n
		}
		if tokens -= m.Tokens; tokens < 0 && whole > 0 {
			t.Messages = t.Messages[:whole]
			return t, nil
		}
		t.Messages = append(t.Messages, m)
	}
	return t, db.Explain(rows.Err())
}

// Summarize stores a summary of what After covers and of the stretch. It does
// nothing, and says so, when these are no longer what the talk holds: something
// was taken back, or summarised by another process.
func (s *Store) Summarize(ctx context.Context, t Stretch, content string, tokens int) (stored bool, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		stored = false
		latest, err := newestSummary(ctx, tx, t.Conversation)
		if err != nil || latest.Through != t.After.Through {
			return err
		}
		var n int
		err = tx.QueryRowContext(ctx, `
			SELECT count(*) FROM messages WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
				AND seq > ? AND seq <= ? AND `+turns.InTalk, t.Conversation, t.After.Through, t.Through()).Scan(&n)
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
