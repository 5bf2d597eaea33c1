// Package uploads changes the states of uploaded files, and deletes files that a run has read.
package uploads

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"parley/conversation/internal/db"
)

// State is the state of an upload.
type State string

const (
	Coming   State = "coming"   // its pieces are being stored
	Ready    State = "ready"    // it waits for a message that names it
	Accepted State = "accepted" // a message names it, and it waits for the run that reads it
	Taken    State = "taken"    // it is no longer needed, and the Chore deletes its pieces
	Read     State = "read"     // its pieces are deleted; it has a key, by which a repeated upload is recognized
)

const (
	// Keep is how long an upload waits for a message that names it.
	Keep = 24 * time.Hour

	// KeepKey is how long after the upload its key is kept. As an upload waits at most a day for a message, that is at least
	// a week after the message, as long as replies are kept.
	KeepKey = 8 * 24 * time.Hour
)

// Piece is how many bytes of an upload are stored in one row, and written in one transaction.
const Piece = 1 << 20

// Move changes the state of uploads for a session, as far as they are in the state from.
func Move(ctx context.Context, tx db.Tx, session string, refs []string, from, to State) error {
	for _, ref := range refs {
		_, err := tx.ExecContext(ctx, `UPDATE uploads SET state = ? WHERE ref = ? AND session = ? AND state = ?`, to, ref, session, from)
		if err != nil {
			return err
		}
	}
	return nil
}

// Chore returns the chore that deletes uploads in the state Taken.
func Chore() db.Chore { return db.Chore{Name: "files that were read", Step: drop} }

// drop deletes some pieces of an upload in the state Taken and, after the last one, the upload
// itself, or moves it to the state Read if it has a key. done reports that there was none.
func drop(ctx context.Context, tx db.Tx) (done bool, err error) {
	var id int64
	err = tx.QueryRowContext(ctx, `SELECT id FROM uploads WHERE state = 'taken' LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	const pieces = 4 // how many are deleted in one transaction, so that no write waits long
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
