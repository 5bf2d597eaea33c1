package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Page is a stretch of a conversation as people read it.
type Page struct {
	Messages []Message // user and assistant, oldest first, whole exchanges
	Older    bool      // there are exchanges before these
}

// History gives a conversation's newest exchanges, at most limit, after
// leaving out the skip newest ones. Replaced answers, what was taken back, and
// tool results are left out. The cost grows with skip and limit, not with the conversation.
func (s *Store) History(ctx context.Context, conversation string, skip, limit int) (Page, error) {
	rows, err := s.db.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
			AND `+turns.InTalk+` ORDER BY seq DESC`, conversation)
	if err != nil {
		return Page{}, db.Explain(err)
	}
	defer rows.Close()
	var newest []Message
	var newer *Message
	exchanges := 0 // whose first message was passed
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return Page{}, err
		}
		if newer != nil && StartsTurn(&m, newer) {
			exchanges++
		}
		newer = &m
		if exchanges >= skip+limit {
			return Page{Messages: oldestFirst(newest), Older: true}, nil
		}
		if exchanges >= skip && m.Role != RoleTool && m.Content != "" {
			newest = append(newest, m)
		}
	}
	return Page{Messages: oldestFirst(newest)}, db.Explain(rows.Err())
}

// ErrNotFound says that a session has no such conversation.
var ErrNotFound = errors.New("no such conversation")

// Resume makes an earlier conversation of a session its active one; the
// present one is archived. The caller holds the session's lock.
func (s *Store) Resume(ctx context.Context, key Key, conversation string) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := resume(ctx, tx, key, conversation, s.now())
		return err
	})
}

// resume gives the conversation as it is then.
func resume(ctx context.Context, tx *sql.Tx, key Key, conversation string, at time.Time) (Conversation, error) {
	var place string
	c, err := scanConversation(tx.QueryRowContext(ctx, selectConversations+`
		WHERE c.uuid = ? AND s.key = ? AND c.deleted = 0`, conversation, string(key)), &place)
	if err != nil {
		return c, fmt.Errorf("resume %s in %s: %w", conversation, key, notFound(err))
	}
	if err := archiveActive(ctx, tx, c.session); err != nil {
		return c, err
	}
	c.Active, c.UpdatedAt = true, db.FromMillis(db.Millis(at))
	_, err = tx.ExecContext(ctx, `UPDATE conversations SET active = 1, updated_at = ? WHERE id = ?`, db.Millis(at), c.row)
	return c, err
}

// notFound is ErrNotFound for an answer without rows, and any other error itself.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}
