package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
)

// Status is how a run ended.
type Status string

const (
	StatusDone    Status = "done"
	StatusFailed  Status = "failed"  // the model gave no answer; the user's messages are kept
	StatusStopped Status = "stopped" // ended by /stop
)

// Kind is what a run was.
type Kind string

const (
	KindAgent   Kind = "agent"
	KindCommand Kind = "command"
)

// The states of a message row beside the ordinary one, "".
const (
	stateStopped  = "stopped"
	stateReplaced = "replaced"
)

// Effect is what a command does to its session's conversations. The zero value
// does nothing.
type Effect struct {
	Archive bool   // the active conversation is archived and a fresh one begins
	Title   string // of the fresh one
	Delete  bool   // the run's conversation is deleted for good, with every copy of its words
	Replace int64  // the answer after this seq is replaced by the run's; 0 = nothing
}

// Run is one finished cycle, committed whole or not at all.
type Run struct {
	Key          Key
	Kind         Kind
	Status       Status
	Took         []int64 // the inbound ids that it settles, in order; never empty
	Conversation string  // ID from the Turn
	Title        string  // for a conversation that has none yet
	Effect       Effect
	Messages     []Message // in order; Seq and RunID are given by Commit
	Replies      []Delivery
	Model        string
	Rounds       int // model calls
	Prompt       int // tokens, as the server counted them
	Completion   int
	Error        string // for the operator, without secrets
	StartedAt    time.Time
}

// ID is the run's number: the first inbound that it took, so it is known
// before the commit and the same when a crash makes the run begin again.
func (r Run) ID() int64 { return r.Took[0] }

// ErrSettled says that an inbound of the run is settled already, so nothing of
// the run was stored: an earlier try of the same commit did succeed.
var ErrSettled = errors.New("the run's messages are settled already")

// Commit stores a run in one transaction: its messages, the inbound that it
// settles, its replies to be delivered, and the totals. It returns the replies
// as they are due now.
func (s *Store) Commit(ctx context.Context, run Run) (due []Delivery, err error) {
	err = s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		due, err = commitRun(ctx, tx, run, s.now())
		if err != nil {
			return fmt.Errorf("commit run %d of %s: %w", run.ID(), run.Key, err)
		}
		return nil
	})
	return due, err
}

func commitRun(ctx context.Context, tx *sql.Tx, run Run, at time.Time) ([]Delivery, error) {
	now := millis(at)
	session, err := settle(ctx, tx, run)
	if err != nil {
		return nil, err
	}
	conversation, err := applyEffect(ctx, tx, run, session, now)
	if err != nil {
		return nil, err
	}
	if len(run.Messages) > 0 {
		if conversation, err = appendMessages(ctx, tx, run, session, now); err != nil {
			return nil, err
		}
	}
	if err := insertRun(ctx, tx, run, session, conversation, now); err != nil {
		return nil, err
	}
	return insertDeliveries(ctx, tx, run, session, at)
}

// settle marks the inbound as done and gives the session's row id.
func settle(ctx context.Context, tx *sql.Tx, run Run) (session int64, err error) {
	for _, id := range run.Took {
		err := tx.QueryRowContext(ctx, `
			UPDATE inbox SET run_id = ?, text = '' WHERE id = ? AND run_id IS NULL RETURNING session_id`,
			run.ID(), id).Scan(&session)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, ErrSettled
		}
		if err != nil {
			return 0, err
		}
	}
	return session, nil
}

// applyEffect gives the row id of the conversation that the run belongs to,
// null when it has none in the store.
func applyEffect(ctx context.Context, tx *sql.Tx, run Run, session, now int64) (sql.NullInt64, error) {
	var none sql.NullInt64
	switch {
	case run.Effect.Archive:
		if err := archiveActive(ctx, tx, session); err != nil {
			return none, err
		}
		id, err := insertConversation(ctx, tx, session, "", run.Effect.Title, now)
		return sql.NullInt64{Int64: id, Valid: err == nil}, err
	case run.Effect.Delete:
		return none, deleteConversation(ctx, tx, run.Conversation)
	}
	err := tx.QueryRowContext(ctx, `SELECT id FROM conversations WHERE uuid = ?`, run.Conversation).Scan(&none)
	if errors.Is(err, sql.ErrNoRows) {
		return sql.NullInt64{}, nil
	}
	return none, err
}

func archiveActive(ctx context.Context, tx *sql.Tx, session int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE conversations SET active = 0 WHERE session_id = ? AND active = 1`, session)
	return err
}

// insertConversation makes a conversation active; id "" gets a new one.
func insertConversation(ctx context.Context, tx *sql.Tx, session int64, id, title string, now int64) (int64, error) {
	if id == "" {
		fresh, err := uuid.NewV7()
		if err != nil {
			return 0, err
		}
		id = fresh.String()
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO conversations (uuid, session_id, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?)`,
		id, session, storable(title), now, now)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// deleteConversation leaves no copy of the words. Settled inbound and sent
// replies have none; a reply that is still due is sent first.
func deleteConversation(ctx context.Context, tx *sql.Tx, id string) error {
	if err := indexMessages(ctx, tx, math.MaxInt32); err != nil { // what is not indexed can't be taken out of the index
		return err
	}
	for _, statement := range []string{
		`UPDATE outbox SET text = '' WHERE state = 'failed'
			AND session_id = (SELECT session_id FROM conversations WHERE uuid = ?1)
			AND run_id IN (SELECT id FROM runs WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ?1))`,
		`DELETE FROM messages WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ?1)`,
		`DELETE FROM conversations WHERE uuid = ?1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
	}
	return nil
}

func appendMessages(ctx context.Context, tx *sql.Tx, run Run, session, now int64) (sql.NullInt64, error) {
	id, seq, err := findConversation(ctx, tx, run, session, now)
	if err != nil {
		return sql.NullInt64{}, err
	}
	if run.Effect.Replace > 0 {
		if err := replaceAnswer(ctx, tx, id, run.Effect.Replace); err != nil {
			return sql.NullInt64{}, err
		}
	}
	tokens := 0
	for _, m := range run.Messages {
		seq++
		tokens += m.Tokens
		if err := insertMessage(ctx, tx, id, seq, run.ID(), m, now); err != nil {
			return sql.NullInt64{}, err
		}
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE conversations SET messages = ?, tokens = tokens + ?, updated_at = ?,
			title = CASE title WHEN '' THEN ? ELSE title END
		WHERE id = ?`, seq, tokens, now, storable(run.Title), id)
	return sql.NullInt64{Int64: id, Valid: true}, err
}

// findConversation gives the run's conversation and the seq of its newest
// message. One that was deleted meanwhile is begun anew.
func findConversation(ctx context.Context, tx *sql.Tx, run Run, session, now int64) (id, seq int64, err error) {
	err = tx.QueryRowContext(ctx, `
		SELECT id, messages FROM conversations WHERE uuid = ?1
		UNION ALL
		SELECT id, messages FROM conversations WHERE session_id = ?2 AND active = 1
			AND NOT EXISTS (SELECT 1 FROM conversations WHERE uuid = ?1)`,
		run.Conversation, session).Scan(&id, &seq)
	if errors.Is(err, sql.ErrNoRows) {
		id, err = insertConversation(ctx, tx, session, run.Conversation, "", now)
	}
	return id, seq, err
}

func replaceAnswer(ctx context.Context, tx *sql.Tx, conversation, after int64) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE messages SET state = ? WHERE conversation_id = ? AND seq > ? AND role <> ?`,
		stateReplaced, conversation, after, RoleUser)
	return err
}

func insertMessage(ctx context.Context, tx *sql.Tx, conversation, seq, run int64, m Message, now int64) error {
	calls, err := jsonOrNull(m.ToolCalls, len(m.ToolCalls) == 0)
	if err != nil {
		return err
	}
	sender, err := jsonOrNull(m.Sender, m.Sender == Sender{})
	if err != nil {
		return err
	}
	state := ""
	if m.Stopped {
		state = stateStopped
	}
	at := millis(m.At)
	if at == 0 {
		at = now
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO messages (conversation_id, seq, run_id, role, state, content, tool_calls, tool_call_id, tool_name, tokens, sender, source_id, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		conversation, seq, run, m.Role, state, storable(m.Content), calls, orNull(m.ToolCallID), orNull(m.ToolName),
		m.Tokens, sender, orNull(m.SourceID), at)
	return err
}

func insertRun(ctx context.Context, tx *sql.Tx, run Run, session int64, conversation sql.NullInt64, now int64) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO runs (id, session_id, conversation_id, kind, status, model, rounds, prompt_tokens, completion_tokens, error, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		run.ID(), session, conversation, run.Kind, run.Status, run.Model, run.Rounds, run.Prompt, run.Completion,
		storable(run.Error), millis(run.StartedAt), now)
	return err
}

func insertDeliveries(ctx context.Context, tx *sql.Tx, run Run, session int64, at time.Time) ([]Delivery, error) {
	due := make([]Delivery, len(run.Replies))
	for i, d := range run.Replies {
		d.Key, d.Text, d.At = run.Key, storable(d.Text), at
		result, err := tx.ExecContext(ctx, `
			INSERT INTO outbox (session_id, run_id, address, text, created_at) VALUES (?, ?, ?, ?, ?)`,
			session, run.ID(), d.Address, d.Text, millis(at))
		if err != nil {
			return nil, err
		}
		if d.ID, err = result.LastInsertId(); err != nil {
			return nil, err
		}
		due[i] = d
	}
	return due, nil
}

func jsonOrNull(v any, empty bool) (sql.NullString, error) {
	if empty {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(v)
	return sql.NullString{String: string(text), Valid: true}, err
}

func orNull(text string) sql.NullString {
	return sql.NullString{String: text, Valid: text != ""}
}
