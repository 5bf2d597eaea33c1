package conversation

import (
	"context"
	"database/sql"
	"fmt"
)

// What an operator does to sessions from outside. Whoever calls it holds the
// session's lock, so that no loop works with what it changes.

// Archive ends the active conversation of a session; the next message begins a
// new one. The error is ErrNotFound when nothing is active.
func (s *Store) Archive(ctx context.Context, key Key) (Conversation, error) {
	c, err := s.Active(ctx, key)
	if err != nil {
		return c, err
	}
	if c.Messages == 0 {
		return c, fmt.Errorf("%w: %s has none that is active", ErrNotFound, key)
	}
	err = s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return archiveActive(ctx, tx, c.session)
	})
	c.Active = false
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
	err = s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		list, err := deletable(ctx, tx, key, id)
		if err != nil {
			return err
		}
		for _, row := range list {
			if err := deleteConversation(ctx, tx, row); err != nil {
				return err
			}
		}
		if n = len(list); id == "" {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET place = '' WHERE key = ?`, string(key)) // the adapter says it anew
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
