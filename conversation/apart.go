package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A session whose conversation can be neither read nor archived, because its
// record stands on a damaged page, is set apart under another key. What is said
// from then on is in a session of its own, under the key that there was.

// commitApart stores a run that begins a new conversation in a session that is
// set apart.
func (s *Store) commitApart(ctx context.Context, run Run) (done Committed, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		apart := run
		if apart.Conversation, err = setApart(ctx, tx, run.Key); err == nil {
			done, err = commitRun(ctx, tx, apart, s.now())
		}
		if err != nil {
			return fmt.Errorf("commit run %d of %s in a session of its own: %w", run.ID(), run.Key, err)
		}
		return nil
	})
	if err == nil {
		s.log.Warn("session was set apart, since its conversation is damaged; a new one goes on under its key", "session", run.Key)
	}
	return done, err
}

// resetApart is Reset for a session that is set apart.
func (s *Store) resetApart(ctx context.Context, key Key, at time.Time) (fresh Conversation, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if fresh, err = setApart(ctx, tx, key); err == nil {
			fresh, err = insertConversation(ctx, tx, fresh, at)
		}
		if err != nil {
			return fmt.Errorf("reset %s: %w", key, err)
		}
		return nil
	})
	return fresh, err
}

// setApart renames a session, and makes a new one under its key, which takes over the
// messages that wait and the replies that are due. It returns a conversation of the new
// session that is not stored yet.
func setApart(ctx context.Context, tx *sql.Tx, key Key) (c Conversation, err error) {
	var old int64
	if err := tx.QueryRowContext(ctx, `SELECT id FROM sessions WHERE key = ?`, string(key)).Scan(&old); err != nil {
		return c, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE sessions SET key = ? WHERE id = ?`, fmt.Sprintf("%s:damaged:%d", key, old), old); err != nil {
		return c, err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO sessions (key, channel, place, metadata, created_at) SELECT ?, channel, place, metadata, created_at FROM sessions WHERE id = ?`,
		string(key), old)
	if err != nil {
		return c, err
	}
	c = Conversation{Key: key}
	if c.session, err = result.LastInsertId(); err != nil {
		return c, err
	}
	for _, statement := range []string{
		`UPDATE inbox SET session_id = ? WHERE session_id = ? AND run_id IS NULL`,
		`UPDATE outbox SET session_id = ? WHERE session_id = ? AND state = 'due'`,
	} {
		if _, err := tx.ExecContext(ctx, statement, c.session, old); err != nil {
			return c, err
		}
	}
	return c, nil
}

// WithoutRecord returns the conversation for a run that is stored with its session alone,
// since nothing can be added to the conversation.
func (c Conversation) WithoutRecord() Conversation {
	return Conversation{Key: c.Key, session: c.session}
}

// acceptAnyhow is Accept for a batch of which the place of some messages may be
// damaged: each is stored by itself, one whose place is damaged under another id,
// or in another session, from which its reply goes where it was written. When a
// message can't be stored at all, those before it are, and the cursors stay.
func (s *Store) acceptAnyhow(ctx context.Context, cursors []Cursor, batch []Inbound) (stored []Inbound, err error) {
	for _, in := range batch {
		one, err := s.acceptOne(ctx, in)
		stored = append(stored, one...)
		if err != nil {
			return stored, err
		}
	}
	_, err = s.accept(ctx, cursors, nil)
	return stored, err
}

func (s *Store) acceptOne(ctx context.Context, in Inbound) (stored []Inbound, err error) {
	otherID := in
	otherID.SourceID = "apart:" + in.SourceID
	otherSession := otherID
	channel, rest, _ := strings.Cut(string(in.Key), ":")
	otherSession.Origin, otherSession.Key = cmp.Or(in.Origin, in.Key), Key(channel+":apart:"+rest)
	for _, variant := range []Inbound{in, otherID, otherSession} {
		if stored, err = s.accept(ctx, nil, []Inbound{variant}); !IsDamaged(err) {
			return stored, err
		}
		s.db.NoteDamage(fmt.Sprintf("the place for messages of %s", variant.Key), err)
	}
	return nil, err
}

// closedConversations is the set of conversations to which nothing can be added, because
// the file is damaged.
type closedConversations struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (c *closedConversations) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	c.ids[id] = true
}

func (c *closedConversations) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[id]
}
