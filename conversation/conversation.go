package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"parley/conversation/internal/db"
	"parley/conversation/metadata"
	"parley/conversation/state"
)

// Conversation is one stretch of a session. It is created with its first message and
// never changes its ID.
type Conversation struct {
	ID        string // UUIDv7
	Key       Key
	Title     string
	Active    bool        // at most one conversation of a session is active
	Messages  int64       // number of stored messages, internal ones among them
	Tokens    int64       // tokens of all its messages
	State     state.State // session state, which the model is told in every run
	Window    Window
	Metadata  metadata.Object // notes of the program that uses the conversation
	Model     string          // model that was chosen for its session, "" for none; see package settings
	Agent     string          // agent that was chosen for its session, "" for none
	Fallback  string          // fallback model that answered last in the session, and of which the chat was told; "" = none
	CreatedAt time.Time
	UpdatedAt time.Time
	Idle      time.Duration // only before the conversation is stored: for how long the one before was not used, if it expired because of that; else 0
	Filled    int64         // only before the conversation is stored: how many messages the one before had, if it expired because of that; else 0

	row     int64 // its row id, 0 while it is not stored
	session int64 // its session's row id, 0 while that is not known
}

// Row returns the row id of the conversation, for the packages below this one; 0 while it is
// not stored.
func (c Conversation) Row() int64 { return c.row }

// Succeeds reports whether the conversation is a new one that is not stored and follows
// an expired one, see Expire.
func (c Conversation) Succeeds() bool { return c.Idle > 0 || c.Filled > 0 }

// Summary stands for the beginning of a conversation in the window. Package summary stores them.
type Summary struct {
	Through int64 // seq of the last message that it covers; 0 = there is no summary
	Content string
	Tokens  int
	At      time.Time
}

// Conversation returns the conversation with an ID, of any session, or ErrNotFound.
func (s *Store) Conversation(ctx context.Context, id string) (Conversation, error) {
	var place string
	c, err := scanConversation(s.db.QueryRowContext(ctx, selectConversations+`WHERE c.uuid = ? AND c.deleted = 0`, id), &place)
	if err != nil {
		return c, db.Explain(fmt.Errorf("%w: %q", notFound(err), id))
	}
	return c, nil
}

// Place returns what people call the place of a session, "" when nobody said. The error is
// ErrNoSession if there is no such session.
func (s *Store) Place(ctx context.Context, key Key) (place string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT place FROM sessions WHERE key = ?`, string(key)).Scan(&place)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("%w: %q", ErrNoSession, key)
	}
	return place, db.Explain(err)
}

// Active returns the session's active conversation. If there is none, it returns a fresh one
// with a new ID, which is stored with its first message.
func (s *Store) Active(ctx context.Context, key Key) (Conversation, error) {
	c, _, err := active(ctx, s.db, key)
	return c, db.Explain(err)
}

const activeOf = `WHERE s.key = ? AND c.active = 1`

func active(ctx context.Context, q db.Querier, key Key) (c Conversation, place string, err error) {
	c, err = scanConversation(q.QueryRowContext(ctx, selectConversations+activeOf, string(key)), &place)
	if errors.Is(err, sql.ErrNoRows) {
		return freshConversation(ctx, q, key)
	}
	return c, place, err
}

// activeToChange is active for a transaction that changes the conversation by what it reads, see toChange.
func activeToChange(ctx context.Context, tx db.Tx, key Key) (c Conversation, err error) {
	var place string
	c, err = scanConversation(tx.QueryRowContext(ctx, selectConversations+activeOf+toChange, string(key)), &place)
	if errors.Is(err, sql.ErrNoRows) { // or another one is active now instead of that for which a server has waited
		c, _, err = active(ctx, tx, key)
	}
	return c, err
}

func freshConversation(ctx context.Context, q db.Querier, key Key) (c Conversation, place string, err error) {
	c = Conversation{Key: key, Active: true}
	var carried []byte
	err = q.QueryRowContext(ctx, `SELECT id, place, carried, coalesce(model, ''), coalesce(agent, ''), coalesce(fallback, '') FROM sessions WHERE key = ?`, string(key)).
		Scan(&c.session, &place, &carried, &c.Model, &c.Agent, &c.Fallback)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return c, "", err
	}
	if len(carried) > 0 {
		if err := json.Unmarshal(carried, &c.State); err != nil {
			return c, "", err
		}
	}
	id, err := uuid.NewV7()
	c.ID = id.String()
	return c, place, err
}

const selectConversations = `
	SELECT c.id, c.session_id, c.uuid, s.key, s.place, c.title, c.active, c.messages, c.tokens, c.state, c.window_start, c.window_cut, c.window_budget, c.window_named, c.metadata,
		coalesce(s.model, ''), coalesce(s.agent, ''), coalesce(s.fallback, ''), c.created_at, c.updated_at
	FROM conversations c JOIN sessions s ON s.id = c.session_id `

// toChange ends a query of selectConversations for a transaction that changes the conversation by what it reads.
var toChange = db.ToChange(`s, c`)

func scanConversation(row interface{ Scan(...any) error }, place *string) (c Conversation, err error) {
	var created, updated int64
	var state []byte
	var noted sql.NullString
	err = row.Scan(&c.row, &c.session, &c.ID, &c.Key, place, &c.Title, &c.Active, &c.Messages, &c.Tokens, &state, &c.Window.Start, &c.Window.Cut, &c.Window.Budget, &c.Window.Named, &noted,
		&c.Model, &c.Agent, &c.Fallback, &created, &updated)
	c.Metadata = metadata.Object(noted.String)
	c.CreatedAt, c.UpdatedAt = db.FromMillis(created), db.FromMillis(updated)
	if err == nil && len(state) > 0 {
		err = json.Unmarshal(state, &c.State)
	}
	return c, err
}

// ReadConversations returns the conversations that a condition selects, for the packages
// below this one: "WHERE … ORDER BY …" on the rows c of conversations and s of sessions.
func ReadConversations(ctx context.Context, q db.Querier, condition string, args ...any) (list []Conversation, err error) {
	rows, err := q.QueryContext(ctx, selectConversations+condition, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var place string
	for rows.Next() {
		c, err := scanConversation(rows, &place)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// startConversation archives the active conversation and begins a fresh one, with
// what the run carries over. One that nobody has written in yet is only renamed.
func startConversation(ctx context.Context, tx db.Tx, run Run, session int64, at time.Time) (Conversation, error) {
	c := run.Conversation
	old, err := activeToChange(ctx, tx, run.Key)
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

// rename gives the run's conversation the title of its effect. One that is not
// stored yet is stored by it, unless a program has begun one meanwhile.
func rename(ctx context.Context, tx db.Tx, run Run, session int64, at time.Time) (c Conversation, err error) {
	if c = run.Conversation; c.row == 0 {
		if c, err = activeToChange(ctx, tx, run.Key); err != nil {
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

func archiveActive(ctx context.Context, tx db.Tx, session int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE conversations SET active = 0 WHERE session_id = ? AND active = 1`, session)
	return err
}

// insertConversation makes a conversation active; one without an ID gets one.
func insertConversation(ctx context.Context, tx db.Tx, c Conversation, at time.Time) (Conversation, error) {
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
	c.row, err = db.Insert(ctx, tx, `
		INSERT INTO conversations (uuid, session_id, title, state, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`,
		c.ID, c.session, c.Title, string(state), db.Millis(at), db.Millis(at))
	if err != nil {
		return c, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE sessions SET carried = NULL WHERE id = ? AND carried IS NOT NULL`, c.session)
	return c, err
}

// growKnown stores the totals and the state that the run's conversation has with the run's messages, and returns it. It fails
// with errChanged if somebody has changed the conversation since the run has read it, or has chosen an older branch.
func growKnown(ctx context.Context, tx db.Tx, run Run, at time.Time) (Conversation, error) {
	known, err := json.Marshal(run.Conversation.State)
	if err != nil {
		return run.Conversation, err
	}
	c := grown(run.Conversation, run, at)
	totals, err := totalsOf(c, at)
	if err != nil {
		return c, err
	}
	return c, db.Require(ctx, tx, whereChanged, updateTotals+` WHERE id = ? AND messages = ? AND title = ? AND state = ? AND tip = 0 AND deleted = 0`,
		append(totals, c.row, run.Conversation.Messages, run.Conversation.Title, string(known))...)
}

// grow reads the run's conversation, or begins the one that follows it, and stores its totals and its state with the run's
// messages. It returns the conversation with the last message of its chosen branch, 0 where that is the newest one.
func grow(ctx context.Context, tx db.Tx, run Run, session int64, at time.Time) (c Conversation, tip int64, err error) {
	if run.Conversation, err = succeed(ctx, tx, run.Conversation, session, at); err != nil {
		return run.Conversation, 0, err
	}
	if c, err = currentConversation(ctx, tx, run, session, at); err != nil {
		return c, 0, err
	}
	if run.Conversation.row != 0 && c.row != run.Conversation.row { // the run's was deleted: its window says nothing about another
		run.Window = Window{}
	}
	c = grown(c, run, at)
	totals, err := totalsOf(c, at)
	if err != nil {
		return c, 0, err
	}
	err = tx.QueryRowContext(ctx, updateTotals+` WHERE id = ? RETURNING tip`, append(totals, c.row)...).Scan(&tip)
	return c, tip, err
}

// updateTotals needs the values of totalsOf.
const updateTotals = `UPDATE conversations SET messages = ?, tokens = ?, title = ?, state = ?, window_start = ?, window_cut = ?, window_budget = ?, window_named = ?, updated_at = ?`

func totalsOf(c Conversation, at time.Time) ([]any, error) {
	state, err := json.Marshal(c.State)
	return []any{c.Messages, c.Tokens, c.Title, string(state), c.Window.Start, c.Window.Cut, c.Window.Budget, c.Window.Named, db.Millis(at)}, err
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
func currentConversation(ctx context.Context, tx db.Tx, run Run, session int64, at time.Time) (Conversation, error) {
	var place string
	c, err := scanConversation(tx.QueryRowContext(ctx, selectConversations+`
		WHERE c.session_id = ?1 AND c.deleted = 0 AND (c.id = ?2 OR c.active = 1) ORDER BY c.id = ?2 DESC LIMIT 1`+toChange,
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
