package conversation

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/conversation/internal/db"
)

// If the row of a conversation is on a damaged page, it can neither be read nor archived. Its
// session is then renamed, and a new session takes over the old key.

// commitInNewSession stores a run with a new conversation in a new session, which replaces
// the damaged one.
func (s *Store) commitInNewSession(ctx context.Context, run Run) (done Committed, err error) {
	var replies []newReply
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		moved := run
		if moved.Conversation, err = replaceSession(ctx, tx, run.Key); err == nil {
			done, replies, err = commitRun(ctx, tx, moved, false, s.Now())
		}
		if err != nil {
			return fmt.Errorf("commit run %d of %s in a session of its own: %w", run.ID(), run.Key, err)
		}
		return nil
	})
	if err != nil {
		return done, err
	}
	s.log.Warn("damaged session replaced by a new one under the same key", "session", run.Key)
	done.Replies, err = s.dueReplies(ctx, run, replies)
	return done, err
}

// resetInNewSession begins a new conversation in a new session, which replaces the
// damaged one.
func (s *Store) resetInNewSession(ctx context.Context, key Key, at time.Time) (fresh Conversation, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		if fresh, err = replaceSession(ctx, tx, key); err == nil {
			fresh, err = insertConversation(ctx, tx, fresh, at)
		}
		if err != nil {
			return fmt.Errorf("reset %s: %w", key, err)
		}
		return nil
	})
	return fresh, err
}

// replaceSession renames a session and makes a new one under its key, which takes over the
// messages that wait and the replies that are due. It returns a conversation of the new
// session that is not stored yet.
func replaceSession(ctx context.Context, tx db.Tx, key Key) (c Conversation, err error) {
	var old int64
	if err := tx.QueryRowContext(ctx, `SELECT id FROM sessions WHERE key = ?`, string(key)).Scan(&old); err != nil {
		return c, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE sessions SET key = ? WHERE id = ?`, fmt.Sprintf("%s:damaged:%d", key, old), old); err != nil {
		return c, err
	}
	c = Conversation{Key: key}
	c.session, err = db.Insert(ctx, tx, `
		INSERT INTO sessions (key, channel, place, metadata, created_at) SELECT ?, channel, place, metadata, created_at FROM sessions WHERE id = ?`,
		string(key), old)
	if err != nil {
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

// acceptDespiteDamage stores a batch after Accept failed because of damaged pages. It stores
// each message in a transaction of its own. If that fails, it tries another source id, and then another session; the reply still
// goes to where the message was written. If a message can't be stored at all, those before it
// are stored, and the cursors are not.
func (s *Store) acceptDespiteDamage(ctx context.Context, cursors []Cursor, batch []Inbound) (stored []Inbound, err error) {
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
