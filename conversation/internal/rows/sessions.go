// Package rows holds what several packages of the store do to the same rows, in a
// transaction of their caller, and the conditions by which they find them.
package rows

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"parley/conversation/internal/db"
)

// EnterSession returns the row id of a session, which is made when it is new, and
// its key: another one where key is of a place that has moved.
func EnterSession(ctx context.Context, tx *sql.Tx, key, place string, now int64) (id int64, session string, err error) {
	var known string
	err = tx.QueryRowContext(ctx, `
		SELECT id, key, place FROM sessions WHERE key = coalesce((SELECT session FROM moved_places WHERE place = ?1), ?1)`,
		key).Scan(&id, &session, &known)
	if errors.Is(err, sql.ErrNoRows) {
		return makeSession(ctx, tx, key, place, now)
	}
	if err == nil && place != "" && place != known {
		_, err = tx.ExecContext(ctx, `UPDATE sessions SET place = ? WHERE id = ?`, place, id)
	}
	return id, session, err
}

func makeSession(ctx context.Context, tx *sql.Tx, key, place string, now int64) (id int64, session string, err error) {
	if session, err = SessionOf(ctx, tx, key); err != nil {
		return 0, "", err
	}
	channel, _, _ := strings.Cut(session, ":")
	result, err := tx.ExecContext(ctx, `INSERT INTO sessions (key, channel, place, created_at) VALUES (?, ?, ?, ?)`,
		session, channel, place, now)
	if err != nil {
		return 0, "", err
	}
	id, err = result.LastInsertId()
	return id, session, err
}

// SessionOf returns the key of the session that a place belongs to, since it may have
// moved.
func SessionOf(ctx context.Context, q db.Querier, place string) (key string, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce((SELECT session FROM moved_places WHERE place = ?1), ?1)`, place).Scan(&key)
	return key, err
}
