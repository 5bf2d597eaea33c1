// Package rows holds the statements and conditions that several packages of the store use on
// the same rows. Its functions run in the caller's transaction.
package rows

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"parley/conversation/internal/db"
)

// EnterSession returns the row id and the key of a session, and creates it if it is new. The
// key is another one if the given key belongs to a place that has moved.
func EnterSession(ctx context.Context, tx db.Tx, key, place string, now int64) (id int64, session string, err error) {
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

func makeSession(ctx context.Context, tx db.Tx, key, place string, now int64) (id int64, session string, err error) {
	if session, err = SessionOf(ctx, tx, key); err != nil {
		return 0, "", err
	}
	channel, _, _ := strings.Cut(session, ":")
	// Another node may make the same session at this moment: then its row is taken.
	err = tx.QueryRowContext(ctx, `
		INSERT INTO sessions (key, channel, place, created_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING id`,
		session, channel, place, now).Scan(&id)
	return id, session, err
}

// SessionOf returns the key of the session that a place belongs to, since it may have
// moved.
func SessionOf(ctx context.Context, q db.Querier, place string) (key string, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce((SELECT session FROM moved_places WHERE place = ?1), ?1)`, place).Scan(&key)
	return key, err
}
