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

// EnterSession returns the id and the key of the session for a key, and creates the session if
// there is none. If the key is that of a place that has moved, the session has another key. On
// PostgreSQL the place can't move before the transaction ends, see HoldPlace. now is in
// milliseconds.
func EnterSession(ctx context.Context, tx db.Tx, key, place string, now int64) (id int64, session string, err error) {
	for {
		if id, session, err = enterSession(ctx, tx, key, place, now); err != nil {
			return 0, "", err
		}
		if belongs, err := SessionOf(ctx, tx, key); err != nil || belongs == session {
			return id, session, err
		}
	}
}

// enterSession is EnterSession for a place that may move until the row of its session is locked.
func enterSession(ctx context.Context, tx db.Tx, key, place string, now int64) (id int64, session string, err error) {
	var known string
	err = tx.QueryRowContext(ctx, `
		SELECT id, key, place FROM sessions WHERE key = coalesce((SELECT session FROM moved_places WHERE place = ?1), ?1)`+db.Either(``, ` FOR KEY SHARE`),
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
	if _, err := tx.ExecContext(ctx, db.Either(`SELECT 1`, `LOCK TABLE moved_places IN SHARE MODE`)); err != nil {
		return 0, "", err
	}
	if session, err = SessionOf(ctx, tx, key); err != nil {
		return 0, "", err
	}
	channel, _, _ := strings.Cut(session, ":")
	// If another node creates the session at the same time, its row is returned.
	err = tx.QueryRowContext(ctx, `
		INSERT INTO sessions (key, channel, place, created_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING id`,
		session, channel, place, now).Scan(&id)
	return id, session, err
}

// HoldPlace has the transactions of other nodes that write to a place wait until this one ends, and waits for those under way. It
// is called behind the INSERT into moved_places, which waits for those that create a session. Others lock the row of the place's
// session: EnterSession does, and so does a row that refers to it. After that they look where the place belongs.
func HoldPlace(ctx context.Context, tx db.Tx, place string) error {
	_, err := tx.ExecContext(ctx, `SELECT 1 FROM sessions WHERE key = ?`+db.Either(``, ` FOR UPDATE`), place)
	return err
}

// SessionOf returns the key of the session for a place, which is another key if the place has
// moved.
func SessionOf(ctx context.Context, q db.Querier, place string) (key string, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce((SELECT session FROM moved_places WHERE place = ?1), ?1)`, place).Scan(&key)
	return key, err
}
