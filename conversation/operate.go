package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"parley/conversation/internal/db"
)

// What operators and programs do to sessions from outside. Whoever calls it holds
// the session's lock, so that no loop works with what it changes.

// Archive ends a conversation of a session, the active one where id is "", and
// returns it as it is then; the next message begins a new one. The error is ErrNotFound
// when there is no such conversation, or none that is active.
func (s *Store) Archive(ctx context.Context, key Key, id string) (Conversation, error) {
	return s.change(ctx, key, id, "archive", func(ctx context.Context, tx *sql.Tx, c *Conversation) error {
		c.Active = false
		_, err := tx.ExecContext(ctx, `UPDATE conversations SET active = 0 WHERE id = ?`, c.row)
		return err
	})
}

// SetMetadata replaces the metadata of a session, which is made when it is new;
// "" is none. Metadata that is no JSON object, or a long one, is ErrInvalid.
func (s *Store) SetMetadata(ctx context.Context, key Key, metadata Metadata) error {
	metadata, err := metadata.checked()
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		session, _, err := EnterSession(ctx, tx, key, "", db.Millis(s.now()))
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET metadata = ? WHERE id = ?`, db.Nullable(string(metadata)), session)
		}
		return err
	})
}

// Renaming gives a conversation of a session a title.
type Renaming struct {
	Key     Key
	ID      string
	Title   string
	Instead *string // only in place of this title; nil = whatever it has
}

// Rename gives a conversation a title, and returns it as it is then. The error is
// ErrNotFound when there is no such conversation, or it has another title than the one
// that is to be replaced.
func (s *Store) Rename(ctx context.Context, r Renaming) (Conversation, error) {
	return s.change(ctx, r.Key, r.ID, "rename", func(ctx context.Context, tx *sql.Tx, c *Conversation) error {
		if r.Instead != nil && c.Title != *r.Instead {
			return ErrNotFound
		}
		c.Title = db.Text(r.Title)
		_, err := tx.ExecContext(ctx, `UPDATE conversations SET title = ? WHERE id = ?`, c.Title, c.row)
		return err
	})
}

// change does something to a conversation of a session, the active one where id is
// "", and returns it as it is then.
func (s *Store) change(ctx context.Context, key Key, id, what string, do func(context.Context, *sql.Tx, *Conversation) error) (c Conversation, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		which, args := `c.uuid = ? AND `, []any{id, string(key)}
		if id == "" {
			which, args = `c.active = 1 AND c.messages > 0 AND `, args[1:]
		}
		var place string
		var err error
		c, err = scanConversation(tx.QueryRowContext(ctx, selectConversations+`
			WHERE `+which+`s.key = ? AND c.deleted = 0`, args...), &place)
		if err == nil {
			err = do(ctx, tx, &c)
		}
		if id == "" && errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: %s has none that is active", ErrNotFound, key)
		}
		if err != nil {
			return fmt.Errorf("%s the conversation %q of %s: %w", what, id, key, notFound(err))
		}
		return nil
	})
	return c, err
}

// deleteBatch is how many conversations are marked in one transaction.
const deleteBatch = 100

// Delete deletes a conversation of a session for good, or all of them when id
// is "", and says how many. They are hidden at once; their rows and their words
// in the index go by and by, or with Sweep. What waits for an answer stays.
func (s *Store) Delete(ctx context.Context, key Key, id string) (deleted int, err error) {
	for {
		n, err := s.deleteSome(ctx, key, id)
		if deleted += n; err != nil || n < deleteBatch {
			return deleted, err
		}
	}
}

func (s *Store) deleteSome(ctx context.Context, key Key, id string) (n int, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		list, err := deletable(ctx, tx, key, id)
		if err != nil {
			return err
		}
		for _, row := range list {
			if err := DeleteIn(ctx, tx, row); err != nil {
				return err
			}
		}
		if n = len(list); id == "" {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET place = '', metadata = NULL WHERE key = ?`, string(key)) // an adapter says its place anew
		}
		return err
	})
	return n, err
}

func deletable(ctx context.Context, tx *sql.Tx, key Key, id string) (list []int64, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT c.id FROM conversations c JOIN sessions s ON s.id = c.session_id
		WHERE s.key = ?1 AND (?2 = '' OR c.uuid = ?2) AND c.deleted = 0 LIMIT ?3`, string(key), id, deleteBatch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var row int64
		if err := rows.Scan(&row); err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}
