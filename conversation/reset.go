package conversation

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Reset archives the active conversation of a session and begins a new one; the
// session keeps its metadata. With keepSystem the new one begins with what
// programs had appended at the beginning of the old one: its system messages and
// other internal ones. A conversation that has nothing else goes on. A session
// that does not exist is ErrNoSession.
func (s *Store) Reset(ctx context.Context, key Key, keepSystem bool) (fresh Conversation, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		fresh, err = reset(ctx, tx, key, keepSystem, s.now())
		if err != nil {
			return fmt.Errorf("reset %s: %w", key, err)
		}
		return nil
	})
	if IsDamaged(err) {
		return s.resetApart(ctx, key, s.now())
	}
	return fresh, err
}

func reset(ctx context.Context, tx *sql.Tx, key Key, keepSystem bool, at time.Time) (Conversation, error) {
	old, _, err := active(ctx, tx, key)
	if err != nil {
		return old, err
	}
	if old.session == 0 {
		return old, ErrNoSession
	}
	var kept []Message
	if keepSystem && old.Messages > 0 {
		if kept, err = opening(ctx, tx, old.row); err != nil {
			return old, err
		}
	}
	if old.row != 0 && old.Messages == int64(len(kept)) {
		return old, nil
	}
	if err := archiveActive(ctx, tx, old.session); err != nil {
		return old, err
	}
	fresh, err := insertConversation(ctx, tx, Conversation{Key: key, session: old.session}, at)
	if err != nil || len(kept) == 0 {
		return fresh, err
	}
	run := Run{Key: key, Conversation: fresh, Messages: kept, Events: instructions(kept)}
	fresh, _, err = appendMessages(ctx, tx, run, old.session, at)
	return fresh, err
}

// opening is what programs have appended, internally, before anything else was
// said in a conversation. What does not fit into one Append is left out.
func opening(ctx context.Context, tx *sql.Tx, conversation int64) ([]Message, error) {
	return readMessages(ctx, tx, selectMessages+`
		WHERE conversation_id = ?1 AND seq < coalesce((
			SELECT seq FROM messages WHERE conversation_id = ?1 AND (internal = 0 OR run_id <> 0) ORDER BY seq LIMIT 1), ?2)
		ORDER BY seq LIMIT ?3`, conversation, int64(1)<<62, appendMost)
}
