package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Answer answers a question.
type Answer struct {
	ID       int64 // ID of the question
	Session  conversation.Key
	Allow    bool
	Remember bool   // allow all later calls of the tool in the session, too
	By       string // name of the person who answers
	Inbound  int64  // ID of the inbound with the answer; 0 = it comes another way

	Cancel  bool           // leave a form without an answer, in place of refusing it
	Content map[string]any // answers to the fields of a form, beside those that were given before
}

// ErrMissing says that a form can't be sent yet, since a field that it needs has no answer.
var ErrMissing = errors.New("a required field has no answer")

// Give stores an answer. Only the first one counts: given is false if the question is not open any more, unless the same
// inbound has answered it, whose command is carried out again after a crash. It returns the question as it is then. The
// error is ErrNone if the session has no such question, and ErrMissing if a form is to be sent that lacks an answer.
func (a *Approvals) Give(ctx context.Context, answer Answer) (q Question, given bool, err error) {
	err = a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		q, given, err = a.give(ctx, tx, answer)
		return err
	})
	return q, given, db.Explain(err)
}

func (a *Approvals) give(ctx context.Context, tx db.Tx, answer Answer) (q Question, given bool, err error) {
	if q, err = oneToClose(ctx, tx, answer.ID); err != nil {
		return q, false, err
	}
	now := a.now()
	switch {
	case q.Session != answer.Session:
		return Question{}, false, ErrNone
	case q.State != Open:
		return q, answer.Inbound != 0 && q.Answer == answer.Inbound, nil
	case !now.Before(q.ExpiresAt): // Expire is about to say so
		q.State = Expired
		return q, false, nil
	}
	if err := fill(ctx, tx, &q, answer.Content); err != nil {
		return q, false, err
	}
	state := Denied
	switch {
	case answer.Allow && len(q.Missing()) > 0:
		return q, false, ErrMissing
	case answer.Allow:
		state = Allowed
	case answer.Cancel && q.Form != nil:
		state = Cancelled
	}
	which, args := `id = ?`, []any{q.ID}
	if answer.Allow && answer.Remember && q.Rememberable {
		which, args = `(id = ? OR form IS NULL AND session_id = (SELECT id FROM sessions WHERE key = ?) AND tool = ? AND definition = ?)`, []any{q.ID, string(q.Session), q.Tool, q.Definition}
		if err := remember(ctx, tx, q, answer.By, now); err != nil {
			return q, false, err
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE approvals SET state = ?, answered_at = ?, answered_by = ?, answer = ? WHERE state = 'open' AND `+which,
		append([]any{state, db.Millis(now), db.Text(answer.By), sql.NullInt64{Int64: answer.Inbound, Valid: answer.Inbound != 0}}, args...)...)
	if err != nil {
		return q, false, err
	}
	q, err = one(ctx, tx, q.ID)
	return q, err == nil, err
}

// Fill stores the answer to a field of a form. filled is false if the question is not open any more. It returns the question
// as it is then. The error is ErrNone if the session has no such question.
func (a *Approvals) Fill(ctx context.Context, key conversation.Key, id int64, field string, value any) (q Question, filled bool, err error) {
	err = a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		filled = false
		if q, err = oneToClose(ctx, tx, id); err != nil {
			return err
		}
		switch {
		case q.Session != key || q.Form == nil:
			return ErrNone
		case q.State != Open:
			return nil
		case !a.now().Before(q.ExpiresAt):
			q.State = Expired
			return nil
		}
		filled = true
		return fill(ctx, tx, &q, map[string]any{field: value})
	})
	return q, filled, db.Explain(err)
}

// fill adds answers to the fields of a form.
func fill(ctx context.Context, tx db.Tx, q *Question, content map[string]any) error {
	if len(content) == 0 || q.Form == nil {
		return nil
	}
	if q.Answers == nil {
		q.Answers = map[string]any{}
	}
	maps.Copy(q.Answers, content)
	text, err := json.Marshal(q.Answers)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE approvals SET answers = ? WHERE id = ?`, string(text), q.ID)
	}
	return err
}

// Deliver stores that the server of a call is being told the answers to the questions that it asked at a stop of the call.
func (a *Approvals) Deliver(ctx context.Context, run int64, round int, call string, stop int) error {
	return a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE approvals SET delivered = 1 WHERE run_id = ? AND round = ? AND call_id = ? AND stop = ?`, run, round, call, stop)
		return err
	})
}

// Lose closes the open questions of a run whose calls were held open by processes that have ended, and stores the notice of
// it for the chat, which words makes. It returns both.
func (a *Approvals) Lose(ctx context.Context, run int64, process string, words func([]Question) Message) (lost []Question, due []conversation.Delivery, err error) {
	err = a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		due = nil
		if lost, err = list(ctx, tx, `WHERE a.run_id = ? AND a.state = 'open' AND a.process NOT IN ('', ?) ORDER BY a.id`+toClose, run, process); err != nil || len(lost) == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE approvals SET state = 'cancelled', answered_at = ? WHERE run_id = ? AND state = 'open' AND process NOT IN ('', ?)`,
			db.Millis(a.now()), run, process)
		if err == nil {
			due, err = a.send(ctx, tx, lost[0], words(lost))
		}
		return err
	})
	return lost, due, err
}

func remember(ctx context.Context, tx db.Tx, q Question, by string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO session_approvals (session_id, tool, allowed_by, allowed_at, definition)
		VALUES ((SELECT id FROM sessions WHERE key = ?), ?, ?, ?, ?) ON CONFLICT (session_id, tool) DO UPDATE
		SET allowed_by = excluded.allowed_by, allowed_at = excluded.allowed_at, definition = excluded.definition
		WHERE session_approvals.definition <> excluded.definition`, string(q.Session), q.Tool, db.Text(by), db.Millis(now), q.Definition)
	return err
}

// Cancel closes the open questions of a run without an answer.
func (a *Approvals) Cancel(ctx context.Context, run int64) error {
	return a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE approvals SET state = 'cancelled', answered_at = ? WHERE run_id = ? AND state = 'open'`, db.Millis(a.now()), run)
		return err
	})
}

// Expire closes the questions whose time is over, of those that are asked by accounts which this process serves, and stores
// the notices of it for their chats, one for each run, which words makes. It returns both.
func (a *Approvals) Expire(ctx context.Context, serves func(conversation.Account) bool, words func([]Question) Message) (expired []Question, due []conversation.Delivery, err error) {
	err = a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		expired, due = nil, nil
		now := a.now()
		over, err := list(ctx, tx, `WHERE a.state = 'open' AND a.expires_at <= ? ORDER BY a.expires_at, a.id`+toClose, db.Millis(now))
		if err != nil {
			return err
		}
		for _, q := range over {
			if !serves(q.To) {
				continue
			}
			if _, err := tx.ExecContext(ctx, `UPDATE approvals SET state = 'expired', answered_at = ? WHERE id = ?`, db.Millis(now), q.ID); err != nil {
				return err
			}
			q.State, q.AnsweredAt = Expired, now
			expired = append(expired, q)
		}
		for _, ofRun := range byRun(expired) {
			sent, err := a.send(ctx, tx, ofRun[0], words(ofRun))
			if err != nil {
				return err
			}
			due = append(due, sent...)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("close questions whose time is over: %w", db.Explain(err))
	}
	return expired, due, nil
}

// byRun groups questions by their runs.
func byRun(all []Question) (groups [][]Question) {
	for _, q := range all {
		i := slices.IndexFunc(groups, func(g []Question) bool { return g[0].Run == q.Run })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], q)
	}
	return groups
}

// Remind stores a message to the chat of a run whose questions are open, once for these questions.
func (a *Approvals) Remind(ctx context.Context, run int64, m Message) (due []conversation.Delivery, err error) {
	err = a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		due = nil
		result, err := tx.ExecContext(ctx, `UPDATE approvals SET reminded = 1 WHERE run_id = ? AND state = 'open' AND reminded = 0`, run)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil || n == 0 {
			return err
		}
		open, err := list(ctx, tx, `WHERE a.run_id = ? AND a.state = 'open' LIMIT 1`, run)
		if err != nil {
			return err
		}
		due, err = a.send(ctx, tx, open[0], m)
		return err
	})
	return due, err
}
