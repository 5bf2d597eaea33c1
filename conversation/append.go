package conversation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation/state"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/internal/clock"
)

// A program may keep a transcript of its own in a session: it appends messages
// that no run has made.

// Bounds of one Append, so that no other write waits long.
const (
	appendMost  = 200
	appendBytes = 1 << 20 // of texts and tool calls
)

// Append adds messages to the active conversation of a session; both are made
// when there is none. All of them are added, behind each other, or none. A run
// that is under way stands behind them.
//
// Each message has its tokens; At may be left out. A system message is what the
// model is told in every run from now on; nobody else sees it, so it is always
// internal. What the model sees must be whole: a tool call with its results in
// the same Append. Messages that are not so are ErrInvalid.
//
// A sourceID, unique in the session, makes a repeat give what the first has
// stored, for as long as settled inbound is kept: with other messages it is
// ErrReused, and ErrNotFound when the conversation was deleted. "" = never a
// repeat.
func (s *Store) Append(ctx context.Context, key Key, sourceID string, messages ...Message) (done Committed, err error) {
	if messages, err = checkAppended(messages); err != nil {
		return done, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done, err = s.appendOnce(ctx, tx, key, sourceID, messages)
		if err != nil {
			return fmt.Errorf("append to %s: %w", key, err)
		}
		return nil
	})
	return done, err
}

func (s *Store) appendOnce(ctx context.Context, tx *sql.Tx, key Key, sourceID string, messages []Message) (done Committed, err error) {
	at := s.now()
	session, entered, err := rows.EnterSession(ctx, tx, string(key), "", db.Millis(at))
	if err != nil {
		return done, err
	}
	key = Key(entered)
	hash, err := fingerprintOf(messages)
	if err != nil {
		return done, err
	}
	if sourceID != "" {
		if done, err = appendedBefore(ctx, tx, session, sourceID, hash); err != nil || done.Repeated {
			return done, err
		}
	}
	c, _, err := active(ctx, tx, key)
	if err != nil {
		return done, err
	}
	run := Run{Key: key, Conversation: c, Messages: messages, Events: s.eventsOf(messages)}
	if done.Conversation, done.Messages, err = appendMessages(ctx, tx, run, session, at); err != nil {
		return done, err
	}
	if err := checkInstructions(done.Conversation.State); err != nil {
		return done, err
	}
	if sourceID != "" {
		_, err = tx.ExecContext(ctx, `
			INSERT INTO appends (session_id, source_id, fingerprint, conversation_id, first_seq, messages, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			session, sourceID, hash, done.Conversation.row, done.Messages[0].Seq, len(messages), db.Millis(at))
	}
	return done, err
}

// eventsOf returns what messages of programs add to the state of a conversation.
func (s *Store) eventsOf(messages []Message) []state.Event {
	events := append(instructions(messages), s.events(messages)...)
	slices.SortStableFunc(events, func(a, b state.Event) int { return cmp.Compare(a.Message, b.Message) })
	return events
}

// appendedBefore returns what was stored under a sourceID, or the zero value.
func appendedBefore(ctx context.Context, tx *sql.Tx, session int64, sourceID, hash string) (done Committed, err error) {
	var known string
	var conversation, first, n int64
	err = tx.QueryRowContext(ctx, `
		SELECT fingerprint, conversation_id, first_seq, messages FROM appends WHERE session_id = ? AND source_id = ?`,
		session, sourceID).Scan(&known, &conversation, &first, &n)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return done, nil
	case err != nil:
		return done, err
	case known != hash:
		return done, fmt.Errorf("%w: %q", ErrReused, sourceID)
	}
	var place string
	done.Conversation, err = scanConversation(tx.QueryRowContext(ctx, selectConversations+`WHERE c.id = ? AND c.deleted = 0`, conversation), &place)
	if err != nil {
		return done, notFound(err)
	}
	done.Repeated = true
	done.Messages, err = readMessages(ctx, tx, selectMessages+`
		WHERE conversation_id = ? AND seq >= ? AND seq < ? ORDER BY seq`, conversation, first, first+n)
	return done, err
}

// fingerprintOf returns a hash of what messages say; their times do not count.
func fingerprintOf(messages []Message) (string, error) {
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].Tokens, messages[i].At = 0, time.Time{}
	}
	return hashOf(messages)
}

func hashOf(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// checkAppended returns the messages as they are stored, or ErrInvalid.
func checkAppended(messages []Message) ([]Message, error) {
	if len(messages) == 0 || len(messages) > appendMost {
		return nil, fmt.Errorf("%w: %d messages, one to %d are taken at once", ErrInvalid, len(messages), appendMost)
	}
	messages = slices.Clone(messages)
	bytes := 0
	for i := range messages {
		m := &messages[i]
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("%w: message %d %w", ErrInvalid, i+1, err)
		}
		var err error
		if m.Metadata, err = m.Metadata.checked(); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		m.Content, m.Internal = db.Text(m.Content), m.Internal || m.Role == RoleSystem
		bytes += len(m.Content)
		for _, call := range m.ToolCalls {
			bytes += len(call.Name) + len(call.Arguments)
		}
	}
	if bytes > appendBytes {
		return nil, fmt.Errorf("%w: the messages have %d bytes, at most %d are taken at once", ErrInvalid, bytes, appendBytes)
	}
	if err := checkRounds(messages); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return messages, nil
}

// check returns why a message can't be stored.
func (m *Message) check() error {
	switch {
	case !slices.Contains([]Role{RoleUser, RoleAssistant, RoleTool, RoleSystem}, m.Role):
		return fmt.Errorf("has the role %q, allowed are user, assistant, tool and system", m.Role)
	case m.Tokens < 0:
		return errors.New("has less than no tokens")
	case len(m.ToolCalls) > 0 && m.Role != RoleAssistant:
		return fmt.Errorf("has the role %s, and only an assistant's has tool calls", m.Role)
	case m.Content == "" && len(m.ToolCalls) == 0 && m.Role != RoleTool:
		return errors.New("is empty")
	}
	return nil
}

// checkRounds says where, in what the model will see, a tool call lacks its
// result or a result its call.
func checkRounds(messages []Message) error {
	var r rounds
	for _, m := range messages {
		if err := r.add(m); err != nil {
			return err
		}
	}
	return r.end()
}

// rounds checks messages one after the other.
type rounds struct {
	n    int
	open []string // ids of calls without a result
}

func (r *rounds) add(m Message) error {
	if r.n++; m.Hidden() {
		return nil
	}
	at := slices.Index(r.open, m.ToolCallID)
	switch {
	case m.Role == RoleTool && at < 0:
		return fmt.Errorf("message %d is the result of the tool call %q, which does not stand before it", r.n, m.ToolCallID)
	case m.Role == RoleTool:
		r.open = slices.Delete(r.open, at, at+1)
	case len(r.open) > 0:
		return fmt.Errorf("message %d stands before the result of the tool call %q", r.n, r.open[0])
	}
	for _, call := range m.ToolCalls {
		if call.ID == "" || call.Name == "" || slices.Contains(r.open, call.ID) {
			return fmt.Errorf("message %d has a tool call without a name or an id of its own", r.n)
		}
		r.open = append(r.open, call.ID)
	}
	return nil
}

func (r *rounds) end() error {
	if len(r.open) > 0 {
		return fmt.Errorf("the result of the tool call %q is missing", r.open[0])
	}
	return nil
}

// An import writes in batches so small that no other write waits long, and
// rests between them. A conversation of many batches can't be seen by anybody
// until the last one: it is staged. What a crash leaves staged is swept away
// before the next import.

// Imported is a finished conversation from elsewhere.
type Imported struct {
	ID        string // UUIDv7, the same whenever it is imported
	Title     string
	CreatedAt time.Time
	UpdatedAt time.Time
	Messages  []Message // in order, each with its tokens and its time; Seq and RunID are given by the store
}

const (
	importLock = "import"

	importBatch = 200     // messages written in one transaction
	importBytes = 1 << 20 // of text, likewise; a longer message goes alone
)

// Import adds archived conversations to a session. Other processes may work
// the session meanwhile: its active conversation is not touched.
type Import struct {
	store   *Store
	key     Key
	goesOn  bool // a conversation that went on where it was exported goes on, see Into
	release func()
}

// BeginImport prepares an import into a session, which is made when it is new.
// One at a time may be under way in a database. Close ends it.
func (s *Store) BeginImport(ctx context.Context, key Key) (*Import, error) {
	release, err := s.db.Lock(importLock)
	var held *db.HeldError
	if errors.As(err, &held) {
		return nil, fmt.Errorf("another import into this database is under way (process %d): wait for it", held.PID)
	}
	if err != nil {
		return nil, err
	}
	im := &Import{store: s, key: key, release: release}
	if err := im.clean(ctx); err != nil {
		release()
		return nil, err
	}
	return im, nil
}

// clean sweeps away what an import left that was killed.
func (im *Import) clean(ctx context.Context) error {
	err := im.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE conversations SET deleted = 1, staged = 0 WHERE staged = 1 OR deleted = 2`) // 2: of a gateway before schema 18
		return err
	})
	if err != nil {
		return err
	}
	return im.store.Sweep(ctx) // a conversation that was deleted may be imported again
}

// Close ends the import; what was added can be searched when it returns.
func (im *Import) Close(ctx context.Context) error {
	defer im.release()
	return im.store.Sweep(ctx)
}

// Add stores a conversation whole, or not at all. added is false when it is
// there already, in whatever session.
func (im *Import) Add(ctx context.Context, c Imported) (added bool, err error) {
	if known, err := im.store.Known(ctx, c.ID); known || err != nil {
		return false, err
	}
	var row int64
	for from := 0; from < len(c.Messages); {
		to := from + batchLength(c.Messages[from:])
		began := time.Now()
		err := im.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			if from == 0 {
				if row, err = im.stage(ctx, tx, c); err != nil {
					return err
				}
			}
			if err := insertImported(ctx, tx, row, c.Messages[from:to], from); err != nil || to < len(c.Messages) {
				return err
			}
			_, err = tx.ExecContext(ctx, `UPDATE conversations SET deleted = 0, staged = 0 WHERE id = ?`, row)
			return err
		})
		if err != nil {
			return false, errors.Join(err, im.abandon(ctx, row))
		}
		from = to
		_ = clock.Sleep(ctx, time.Since(began)) // half of the time is for whoever else writes
	}
	return len(c.Messages) > 0, nil
}

// batchLength returns how many of the messages are written in one transaction.
func batchLength(messages []Message) int {
	for n, size := 0, 0; n < len(messages); n++ {
		if size += len(messages[n].Content); n == importBatch || n > 0 && size > importBytes {
			return n
		}
	}
	return len(messages)
}

// stage inserts the conversation with its totals, hidden.
func (im *Import) stage(ctx context.Context, tx *sql.Tx, c Imported) (row int64, err error) {
	session, _, err := rows.EnterSession(ctx, tx, string(im.key), "", db.Millis(im.store.now()))
	if err != nil {
		return 0, err
	}
	tokens := 0
	for _, m := range c.Messages {
		tokens += m.Tokens
	}
	reached, err := json.Marshal(stateAfter(state.State{}, Run{Messages: c.Messages, Events: im.store.events(c.Messages)}))
	if err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO conversations (uuid, session_id, title, active, deleted, staged, messages, tokens, state, created_at, updated_at)
		VALUES (?, ?, ?, 0, 1, 1, ?, ?, ?, ?, ?)`,
		c.ID, session, db.Text(c.Title), len(c.Messages), tokens, string(reached), db.Millis(c.CreatedAt), db.Millis(c.UpdatedAt))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func insertImported(ctx context.Context, tx *sql.Tx, row int64, messages []Message, after int) error {
	for i, m := range messages {
		m.Seq = int64(after + i + 1)
		if _, err := insertMessage(ctx, tx, row, m); err != nil {
			return err
		}
	}
	return nil
}

// abandon has a conversation swept away that can't be finished.
func (im *Import) abandon(ctx context.Context, row int64) error {
	return im.store.db.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE conversations SET staged = 0 WHERE id = ? AND staged = 1`, row)
		return err
	})
}

// Known reports whether there is a conversation with the ID, in any session.
func (s *Store) Known(ctx context.Context, id string) (known bool, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM conversations WHERE uuid = ?)`, id).Scan(&known)
	return known, db.Explain(err)
}
