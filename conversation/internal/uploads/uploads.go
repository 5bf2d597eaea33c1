// Package uploads keeps the states of uploaded files as the messages that name them
// come and are read.
package uploads

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"parley/conversation/internal/db"
)

// State is how far an upload has come.
type State string

const (
	Coming   State = "coming"   // its pieces are being stored
	Ready    State = "ready"    // it waits for a message that names it
	Accepted State = "accepted" // it waits for the run that reads it
	Taken    State = "taken"    // its pieces are deleted soon, and it, if it has no key
	Read     State = "read"     // it has no pieces; by its key, a repeated upload is recognized
)

const (
	// Keep is how long an upload waits for a message that names it.
	Keep = 24 * time.Hour

	// KeepKey is how long a key is known, at least: as long as answers, after a message has named it.
	KeepKey = 8 * 24 * time.Hour
)

// Piece is how many bytes of an upload are stored in one row, and written at once.
const Piece = 1 << 20

// Move puts uploads for a session from one state into the next.
func Move(ctx context.Context, tx db.Tx, session string, refs []string, from, to State) error {
	for _, ref := range refs {
		_, err := tx.ExecContext(ctx, `UPDATE uploads SET state = ? WHERE ref = ? AND session = ? AND state = ?`, to, ref, session, from)
		if err != nil {
			return err
		}
	}
	return nil
}

// Chore deletes the uploads that were taken.
func Chore() db.Chore { return db.Chore{Name: "files that were read", Step: drop} }

// drop deletes some pieces of an upload that was taken. done says that there is none
// left.
func drop(ctx context.Context, tx db.Tx) (done bool, err error) {
	var id int64
	err = tx.QueryRowContext(ctx, `SELECT id FROM uploads WHERE state = 'taken' LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	const pieces = 4 // in one transaction, so that no write waits long
	result, err := tx.ExecContext(ctx, `
		DELETE FROM upload_pieces WHERE upload_id = ?1 AND n IN (SELECT n FROM upload_pieces WHERE upload_id = ?1 LIMIT ?2)`, id, pieces)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == pieces {
		return false, err
	}
	if _, err = tx.ExecContext(ctx, `UPDATE uploads SET state = 'read' WHERE id = ? AND key IS NOT NULL`, id); err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM uploads WHERE id = ? AND key IS NULL`, id)
	return false, err
}
