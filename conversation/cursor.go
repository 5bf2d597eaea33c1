package conversation

import (
	"context"
	"database/sql"
	"errors"

	"parley/conversation/internal/db"
)

// Cursor is how far a channel has read its platform, stored in the same
// transaction as the messages up to it.
type Cursor struct {
	Name  string // "telegram:123456", one for each account or place
	Value string // for example the next update's offset
}

// Cursor is the value stored under a name, "" when there is none.
func (s *Store) Cursor(ctx context.Context, name string) (string, error) {
	var value string
	err := s.db.QueryRowContext(ctx, `SELECT value FROM cursors WHERE name = ?`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, db.Explain(err)
}

// Cursors are those whose name begins with a prefix.
func (s *Store) Cursors(ctx context.Context, prefix string) ([]Cursor, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT name, value FROM cursors WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name`, prefix)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Cursor
	for rows.Next() {
		var c Cursor
		if err := rows.Scan(&c.Name, &c.Value); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, db.Explain(rows.Err())
}

func setCursor(ctx context.Context, tx *sql.Tx, c Cursor, now int64) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO cursors (name, value, updated_at) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
		c.Name, c.Value, now)
	return err
}
