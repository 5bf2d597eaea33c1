package conversation

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parley/conversation/internal/db"
)

// Files that come without a platform which holds them are stored until a run has
// read them. They are written and deleted piece by piece, so that no other write
// waits long.

// Upload is such a file.
type Upload struct {
	Key       Key // the session that it is for
	Name      string
	MediaType string // as the sender says, "image/png"
	Data      []byte
	At        time.Time // given by the store
}

const (
	MaxUpload = 20 << 20 // bytes of an upload

	uploadPiece = 1 << 20
)

// The states of an upload: an upload that is ready waits for a message, and one
// that is accepted for the run.
const (
	uploadComing   = "coming"
	uploadReady    = "ready"
	uploadAccepted = "accepted"
	uploadTaken    = "taken"
)

// ErrNoUpload says that there is no such upload, or that it is gone.
var ErrNoUpload = errors.New("no such upload")

// Upload stores a file and gives what an Attachment of an inbound with Keep names
// it by, as its Ref: it can't be guessed. It is deleted once a run has settled
// the inbound, and after a day when none has come. More than MaxUpload bytes,
// or none, are ErrInvalid.
func (s *Store) Upload(ctx context.Context, u Upload) (ref string, err error) {
	if len(u.Data) == 0 || len(u.Data) > MaxUpload {
		return "", fmt.Errorf("%w: a file of %d bytes, from 1 to %d are taken", ErrInvalid, len(u.Data), MaxUpload)
	}
	ref = rand.Text()
	var id int64
	for n, from := 0, 0; from < len(u.Data); n, from = n+1, from+uploadPiece {
		piece := u.Data[from:min(from+uploadPiece, len(u.Data))]
		last := from+len(piece) == len(u.Data)
		err := s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			if n == 0 {
				if id, err = insertUpload(ctx, tx, u, ref, s.now()); err != nil {
					return err
				}
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO upload_pieces (upload_id, n, data) VALUES (?, ?, ?)`, id, n, piece)
			if err == nil && last {
				_, err = tx.ExecContext(ctx, `UPDATE uploads SET state = ? WHERE id = ?`, uploadReady, id)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("store the file %q of %s: %w", u.Name, u.Key, err)
		}
	}
	return ref, nil
}

func insertUpload(ctx context.Context, tx *sql.Tx, u Upload, ref string, at time.Time) (id int64, err error) {
	result, err := tx.ExecContext(ctx, `
		INSERT INTO uploads (ref, session, name, media_type, size, state, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		ref, string(u.Key), db.Text(u.Name), db.Text(u.MediaType), len(u.Data), uploadComing, db.Millis(at))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// Uploaded gives an upload with its bytes, or ErrNoUpload.
func (s *Store) Uploaded(ctx context.Context, ref string) (Upload, error) {
	var u Upload
	var id, at, size int64
	err := s.db.QueryRowContext(ctx, `
		SELECT id, session, name, media_type, size, created_at FROM uploads WHERE ref = ? AND state IN (?, ?)`,
		ref, uploadReady, uploadAccepted).Scan(&id, &u.Key, &u.Name, &u.MediaType, &size, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return u, ErrNoUpload
	}
	if err != nil {
		return u, db.Explain(err)
	}
	u.At = db.FromMillis(at)
	rows, err := s.db.QueryContext(ctx, `SELECT data FROM upload_pieces WHERE upload_id = ? ORDER BY n`, id)
	if err != nil {
		return u, db.Explain(err)
	}
	defer rows.Close()
	data := bytes.NewBuffer(make([]byte, 0, size))
	for rows.Next() {
		var piece sql.RawBytes
		if err := rows.Scan(&piece); err != nil {
			return u, err
		}
		data.Write(piece)
	}
	if err := rows.Err(); err != nil {
		return u, db.Explain(err)
	}
	if int64(data.Len()) != size { // a run has taken it meanwhile
		return u, ErrNoUpload
	}
	u.Data = data.Bytes()
	return u, nil
}

// moveUploads puts the uploads that an inbound names from one state into the
// next.
func moveUploads(ctx context.Context, tx *sql.Tx, in Inbound, from, to string) error {
	if !in.Keep {
		return nil
	}
	for _, file := range in.Attachments {
		_, err := tx.ExecContext(ctx, `UPDATE uploads SET state = ? WHERE ref = ? AND session = ? AND state = ?`,
			to, file.Ref, string(in.Key), from)
		if err != nil {
			return err
		}
	}
	return nil
}

// dropUploads is the chore that deletes uploads which were taken. done says that
// there is none left.
func dropUploads(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	var id int64
	err = tx.QueryRowContext(ctx, `SELECT id FROM uploads WHERE state = 'taken' LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	const pieces = sweepBytes / uploadPiece
	result, err := tx.ExecContext(ctx, `
		DELETE FROM upload_pieces WHERE upload_id = ?1 AND n IN (SELECT n FROM upload_pieces WHERE upload_id = ?1 LIMIT ?2)`, id, pieces)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == pieces {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM uploads WHERE id = ?`, id)
	return false, err
}
