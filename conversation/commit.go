package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation/state"
	"parley/conversation/steps"

	"github.com/google/uuid"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/turns"
	"parley/conversation/internal/uploads"
)

// Commit stores a run in one transaction: its messages, the inbound that it
// settles, its replies to be delivered, and the totals. A run that archives a
// conversation whose record is damaged begins the new one all the same.
func (s *Store) Commit(ctx context.Context, run Run) (done Committed, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done, err = commitRun(ctx, tx, run, s.now())
		if err != nil {
			return fmt.Errorf("commit run %d of %s: %w", run.ID(), run.Key, err)
		}
		return nil
	})
	switch {
	case !IsDamaged(err):
	case run.Effect.Archive:
		return s.commitApart(ctx, run)
	case len(run.Messages) > 0:
		s.closed.add(run.Conversation.ID)
	}
	return done, err
}

func commitRun(ctx context.Context, tx *sql.Tx, run Run, at time.Time) (done Committed, err error) {
	session, err := sessionOf(ctx, tx, run)
	if err != nil {
		return done, err
	}
	for _, in := range run.Took {
		if err := settle(ctx, tx, run, in); err != nil {
			return done, err
		}
	}
	if done, err = change(ctx, tx, run, session, at); err != nil {
		return done, err
	}
	if err := dropUnclaimed(ctx, tx, run.Took); err != nil {
		return done, err
	}
	if err := insertRun(ctx, tx, run, session, done.Conversation.row, db.Millis(at)); err != nil {
		return done, err
	}
	if err := addParticipants(ctx, tx, run, done.Conversation.row); err != nil {
		return done, err
	}
	done.Replies, err = insertReplies(ctx, tx, run, session, done, at)
	return done, err
}

// change applies a run's effect and messages to its conversation.
func change(ctx context.Context, tx *sql.Tx, run Run, session int64, at time.Time) (done Committed, err error) {
	done.Conversation = run.Conversation
	switch {
	case run.Effect.Archive:
		done.Conversation, err = startConversation(ctx, tx, run, session, at)
	case run.Effect.Delete:
		done.Conversation, err = Conversation{}, rows.DeleteConversation(ctx, tx, run.Conversation.row)
	case run.Effect.Resume != "":
		done.Conversation, err = resume(ctx, tx, run.Key, run.Effect.Resume, at)
	case run.Effect.Title != "":
		done.Conversation, err = rename(ctx, tx, run, session, at)
	case run.Effect.Undo > 0:
		if done.Conversation, err = undo(ctx, tx, run); err == nil && len(run.Messages) > 0 {
			run.Conversation = done.Conversation
			done.Conversation, done.Messages, err = appendMessages(ctx, tx, run, session, at)
		}
	case len(run.Messages) > 0:
		done.Conversation, done.Messages, err = appendMessages(ctx, tx, run, session, at)
	}
	return done, err
}

// sessionOf returns the row id of the run's session.
func sessionOf(ctx context.Context, tx *sql.Tx, run Run) (id int64, err error) {
	if run.Conversation.session != 0 {
		return run.Conversation.session, nil
	}
	err = tx.QueryRowContext(ctx, `SELECT id FROM sessions WHERE key = ?`, string(run.Key)).Scan(&id)
	return id, err
}

// settle marks an inbound as done.
func settle(ctx context.Context, tx *sql.Tx, run Run, in Inbound) error {
	result, err := tx.ExecContext(ctx, `
		UPDATE inbox AS i SET run_id = ?, withdrawn = 0, title = '', text = ?, attachments = NULL, overheard = NULL, address = ''
		WHERE id = ? AND revision = ? AND (run_id IS NULL OR `+rows.IsWithdrawn+`)`, run.ID(), keptText(run, in), in.ID, in.revision)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = settleEdited(ctx, tx, run, in.ID)
	}
	if err != nil {
		return err
	}
	return moveUploads(ctx, tx, in, uploads.Accepted, uploads.Taken)
}

// keptText returns what is kept of an inbound's text: all of it, for the notice that
// answers it, unless a message has it.
func keptText(run Run, in Inbound) string {
	if !in.Keep || slices.ContainsFunc(run.Messages, func(m Message) bool { return m.SourceID == in.SourceID }) {
		return ""
	}
	return in.Text
}

// settleEdited marks an inbound that was edited while the run answered it. The
// next run is told how it reads now, unless it was taken back as well.
func settleEdited(ctx context.Context, tx *sql.Tx, run Run, id int64) error {
	var text string
	var waits bool
	err := tx.QueryRowContext(ctx, `
		SELECT text, run_id IS NULL FROM inbox i WHERE id = ? AND (run_id IS NULL OR `+rows.IsWithdrawn+`)`, id).Scan(&text, &waits)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrSettled
	}
	if err == nil && waits && run.Kind == KindAgent {
		err = insertNote(ctx, tx, id, ":late", text)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE inbox SET run_id = ?, withdrawn = 0, title = '', text = '', attachments = NULL, overheard = NULL, address = '' WHERE id = ?`, run.ID(), id)
	}
	return err
}

// startConversation archives the active conversation and begins a fresh one, with
// what the run carries over. One that nobody has written in yet is only renamed.
func startConversation(ctx context.Context, tx *sql.Tx, run Run, session int64, at time.Time) (Conversation, error) {
	c := run.Conversation
	old, _, err := active(ctx, tx, run.Key)
	if err != nil {
		return c, err
	}
	carried := old.State.Carried(run.Effect.Carry)
	if c.row != 0 && c.Messages == 0 && old.row == c.row && old.Messages == 0 {
		if c, err = rename(ctx, tx, run, session, at); err == nil {
			c.State = carried
			err = storeState(ctx, tx, c)
		}
		return c, err
	}
	if err := archiveActive(ctx, tx, session); err != nil {
		return c, err
	}
	return insertConversation(ctx, tx, Conversation{Key: run.Key, Title: run.Effect.Title, State: carried, session: session}, at)
}

func storeState(ctx context.Context, tx *sql.Tx, c Conversation) error {
	state, err := json.Marshal(c.State)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE conversations SET state = ? WHERE id = ?`, string(state), c.row)
	}
	return err
}

// rename gives the run's conversation the title of its effect. One that is not
// stored yet is stored by it, unless a program has begun one meanwhile.
func rename(ctx context.Context, tx *sql.Tx, run Run, session int64, at time.Time) (c Conversation, err error) {
	if c = run.Conversation; c.row == 0 {
		if c, _, err = active(ctx, tx, run.Key); err != nil {
			return c, err
		}
	}
	c.Title = db.Text(run.Effect.Title)
	if c.row == 0 {
		c.ID, c.session = run.Conversation.ID, session
		return insertConversation(ctx, tx, c, at)
	}
	_, err = tx.ExecContext(ctx, `UPDATE conversations SET title = ? WHERE id = ?`, c.Title, c.row)
	return c, err
}

func archiveActive(ctx context.Context, tx *sql.Tx, session int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE conversations SET active = 0 WHERE session_id = ? AND active = 1`, session)
	return err
}

// insertConversation makes a conversation active; one without an ID gets one.
func insertConversation(ctx context.Context, tx *sql.Tx, c Conversation, at time.Time) (Conversation, error) {
	if c.ID == "" {
		fresh, err := uuid.NewV7()
		if err != nil {
			return c, err
		}
		c.ID = fresh.String()
	}
	c.Title, c.Active, c.CreatedAt, c.UpdatedAt = db.Text(c.Title), true, db.FromMillis(db.Millis(at)), db.FromMillis(db.Millis(at))
	state, err := json.Marshal(c.State)
	if err != nil {
		return c, err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO conversations (uuid, session_id, title, state, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`,
		c.ID, c.session, c.Title, string(state), db.Millis(at), db.Millis(at))
	if err != nil {
		return c, err
	}
	if c.row, err = result.LastInsertId(); err != nil {
		return c, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE sessions SET carried = NULL WHERE id = ? AND carried IS NOT NULL`, c.session)
	return c, err
}

func appendMessages(ctx context.Context, tx *sql.Tx, run Run, session int64, at time.Time) (Conversation, []Message, error) {
	c, err := grow(ctx, tx, run, session, at)
	if err != nil {
		return c, nil, err
	}
	if run.Effect.Replace > 0 && c.row == run.Conversation.row {
		if err := replaceAnswer(ctx, tx, run); err != nil {
			return c, nil, err
		}
	}
	stored := make([]Message, len(run.Messages))
	for i, m := range run.Messages {
		m.Seq, m.RunID = c.Messages-int64(len(run.Messages)-1-i), run.ID()
		if m.At.IsZero() {
			m.At = at
		}
		m.At = db.FromMillis(db.Millis(m.At))
		if stored[i], err = insertMessage(ctx, tx, c.row, m); err != nil {
			return c, nil, err
		}
	}
	return c, stored, nil
}

// grow stores the totals and the state of the run's conversation with the run's messages,
// and returns it. If somebody else has changed it since the snapshot, grow reads it first.
func grow(ctx context.Context, tx *sql.Tx, run Run, session int64, at time.Time) (Conversation, error) {
	var err error
	if run.Conversation, err = succeed(ctx, tx, run.Conversation, session, at); err != nil {
		return run.Conversation, err
	}
	known, err := json.Marshal(run.Conversation.State)
	if err != nil {
		return run.Conversation, err
	}
	c := grown(run.Conversation, run, at)
	state, err := json.Marshal(c.State)
	if err != nil {
		return c, err
	}
	result, err := tx.ExecContext(ctx, `
		UPDATE conversations SET messages = ?, tokens = ?, title = ?, state = ?, window_start = ?, window_cut = ?, window_budget = ?, updated_at = ?
		WHERE id = ? AND messages = ? AND title = ? AND state = ? AND deleted = 0`,
		c.Messages, c.Tokens, c.Title, string(state), c.Window.Start, c.Window.Cut, c.Window.Budget, db.Millis(at),
		c.row, run.Conversation.Messages, run.Conversation.Title, string(known))
	if err != nil {
		return c, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return c, err
	}
	if c, err = currentConversation(ctx, tx, run, session, at); err != nil {
		return c, err
	}
	if run.Conversation.row != 0 && c.row != run.Conversation.row { // the run's was deleted: its window says nothing about another
		run.Window = Window{}
	}
	c = grown(c, run, at)
	if state, err = json.Marshal(c.State); err != nil {
		return c, err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE conversations SET messages = ?, tokens = ?, title = ?, state = ?, window_start = ?, window_cut = ?, window_budget = ?, updated_at = ? WHERE id = ?`,
		c.Messages, c.Tokens, c.Title, string(state), c.Window.Start, c.Window.Cut, c.Window.Budget, db.Millis(at), c.row)
	return c, err
}

// stateAfter returns the state of a conversation when a run has been added to it. It shares no memory with s.
func stateAfter(s state.State, run Run) state.State {
	if run.Effect.Replace > 0 {
		s = s.Without(s.Turns)
		s.Asked = true
	}
	events := run.Events
	for i, m := range run.Messages {
		if !m.Internal {
			asks := m.Role == RoleUser
			if asks && !s.Asked {
				s.Turns++
			}
			s.Asked = asks
		}
		for len(events) > 0 && events[0].Message <= i {
			s, events = s.With(events[0]), events[1:]
		}
	}
	for _, e := range events {
		s = s.With(e)
	}
	if run.Model != "" {
		s.Model = state.Line(run.Model)
	}
	return s
}

func grown(c Conversation, run Run, at time.Time) Conversation {
	for _, m := range run.Messages {
		c.Messages++
		c.Tokens += int64(m.Tokens)
	}
	if c.Title == "" {
		c.Title = db.Text(run.Title)
	}
	c.State = stateAfter(c.State, run)
	if run.Window.Start > 0 {
		c.Window = run.Window
	}
	c.UpdatedAt = db.FromMillis(db.Millis(at))
	return c
}

// currentConversation reads the run's conversation from the store. If it was deleted
// meanwhile, it returns the session's active one, or begins one.
func currentConversation(ctx context.Context, tx *sql.Tx, run Run, session int64, at time.Time) (Conversation, error) {
	var place string
	c, err := scanConversation(tx.QueryRowContext(ctx, selectConversations+`
		WHERE c.session_id = ?1 AND c.deleted = 0 AND (c.id = ?2 OR c.active = 1) ORDER BY c.id = ?2 DESC LIMIT 1`,
		session, run.Conversation.row), &place)
	if !errors.Is(err, sql.ErrNoRows) {
		return c, err
	}
	begun, _, err := freshConversation(ctx, tx, run.Key) // with what the session has by now
	if err != nil {
		return c, err
	}
	if begun.session = session; run.Conversation.row == 0 { // else the ID is taken until its rows are swept away, and never comes again
		begun.ID = run.Conversation.ID
	}
	return insertConversation(ctx, tx, begun, at)
}

// replaceAnswer marks the answer that the run answers anew, and deletes summaries that
// cover a part of it. What a program has appended while the run went on is none of it.
func replaceAnswer(ctx context.Context, tx *sql.Tx, run Run) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE messages SET state = ? WHERE conversation_id = ? AND seq > ? AND seq <= ? AND role <> ? AND `+turns.InTalk,
		stateReplaced, run.Conversation.row, run.Effect.Replace, run.Conversation.Messages, RoleUser)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM summaries WHERE conversation_id = ? AND through > ?`, run.Conversation.row, run.Effect.Replace)
	}
	return err
}

// undo marks the last exchange that the run knew of as taken back. What a program
// has appended meanwhile stays. Where the conversation was deleted meanwhile, it does
// nothing.
func undo(ctx context.Context, tx *sql.Tx, run Run) (Conversation, error) {
	known := run.Conversation
	turn, err := turns.Of(ctx, tx, known.row, run.Effect.Undo)
	if err != nil {
		return known, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE messages SET state = ? WHERE conversation_id = ? AND seq BETWEEN ? AND ? AND `+turns.InTalk,
		stateUndone, known.row, run.Effect.Undo, known.Messages)
	if err == nil { // a summary that covers it goes too, and the one before it counts again
		_, err = tx.ExecContext(ctx, `DELETE FROM summaries WHERE conversation_id = ? AND through >= ?`, known.row, run.Effect.Undo)
	}
	if err != nil {
		return known, err
	}
	var place string
	c, err := scanConversation(tx.QueryRowContext(ctx, selectConversations+`WHERE c.id = ? AND c.deleted = 0`, known.row), &place)
	if errors.Is(err, sql.ErrNoRows) {
		return known, nil
	}
	if err != nil {
		return known, err
	}
	c.State = c.State.Without(turn)
	if c.State.Turns, err = turns.Of(ctx, tx, c.row, c.Messages); err != nil {
		return c, err
	}
	if c.State.Asked, err = turns.Unanswered(ctx, tx, c.row); err != nil {
		return c, err
	}
	return c, storeState(ctx, tx, c)
}

func insertRun(ctx context.Context, tx *sql.Tx, run Run, session, conversation, now int64) error {
	sender, err := jsonOrNull(run.Took[0].Sender, run.Took[0].Sender == Sender{})
	if err != nil {
		return err
	}
	called, err := steps.Encode(run.Steps, run.Model, run.StartedAt)
	if err != nil {
		return err
	}
	instructions, err := addInstructions(ctx, tx, run, conversation)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO runs (id, session_id, conversation_id, kind, status, model, rounds, prompt_tokens, cached_tokens, completion_tokens, error, started_at, ended_at,
			sender, messages, steps, finish_reason, new_conversation, instructions)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		run.ID(), session, sql.NullInt64{Int64: conversation, Valid: conversation != 0}, run.Kind, run.Status, run.Model, run.Rounds, run.Prompt, run.Cached, run.Completion,
		db.Text(run.Error), db.Millis(run.StartedAt), now, sender, len(run.Messages), db.Nullable(string(called)), db.Nullable(string(run.FinishReason)), run.Conversation.Succeeds() && conversation != 0, instructions)
	return err
}

// addInstructions stores the instructions that were in force in a run and returns their
// hash, null for none.
func addInstructions(ctx context.Context, tx *sql.Tx, run Run, conversation int64) (sql.NullString, error) {
	if len(run.Instructions) == 0 || conversation == 0 {
		return sql.NullString{}, nil
	}
	hash, _, err := hashInstructions(run.Instructions)
	if err != nil {
		return sql.NullString{}, err
	}
	return db.Nullable(hash), insertInstructions(ctx, tx, conversation, run.Instructions)
}

func insertInstructions(ctx context.Context, tx *sql.Tx, conversation int64, texts []string) error {
	hash, list, err := hashInstructions(texts)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT OR IGNORE INTO run_instructions (conversation_id, hash, list) VALUES (?, ?, ?)`, conversation, hash, string(list))
	}
	return err
}

// addParticipants stores whose messages a run has answered. They are stored beside the conversation: a message of a
// private chat has no author, and inbound is kept for a week only.
func addParticipants(ctx context.Context, tx *sql.Tx, run Run, conversation int64) error {
	if run.Kind != KindAgent || conversation == 0 {
		return nil
	}
	var last Sender
	for _, in := range run.Took {
		if in.Sender.ID == "" || in.Sender == last {
			continue
		}
		last = in.Sender
		_, err := tx.ExecContext(ctx, `
			INSERT INTO participants (conversation_id, user_id, name) VALUES (?, ?, ?)
			ON CONFLICT (conversation_id, user_id) DO UPDATE SET name = excluded.name WHERE name <> excluded.name`,
			conversation, last.ID, db.Text(last.Name))
		if err != nil {
			return err
		}
	}
	return nil
}
