// Package files keeps files that come without a platform which holds them until a run
// has read them. They are written and deleted piece by piece, so that no other write
// waits long.
package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/uploads"
)

// Files are the uploaded files of a store.
type Files struct {
	db  *db.DB
	now func() time.Time
}

// New returns the files of a store.
func New(store *conversation.Store) *Files { return &Files{store.DB(), store.Now} }

// Upload is a file.
type Upload struct {
	Key       conversation.Key // the session that it is for
	Name      string
	MediaType string // as the sender says, "image/png"
	Data      []byte
	At        time.Time // given by the store
}

// MaxSize is how many bytes an upload may have.
const MaxSize = 20 << 20

// ErrNotFound says that there is no such upload, or that it is gone.
var ErrNotFound = errors.New("no such upload")

// Put stores a file and returns the Ref by which an Attachment of an inbound with Keep
// names it: it can't be guessed. It is deleted once a run has settled
// the inbound, and after a day when none has come. More than MaxSize bytes,
// or none, are ErrInvalid.
func (f *Files) Put(ctx context.Context, u Upload) (ref string, err error) {
	if len(u.Data) == 0 || len(u.Data) > MaxSize {
		return "", fmt.Errorf("%w: a file of %d bytes, from 1 to %d are taken", conversation.ErrInvalid, len(u.Data), MaxSize)
	}
	ref = rand.Text()
	var id int64
	for n, from := 0, 0; from < len(u.Data); n, from = n+1, from+uploads.Piece {
		piece := u.Data[from:min(from+uploads.Piece, len(u.Data))]
		last := from+len(piece) == len(u.Data)
		err := f.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			if n == 0 {
				if id, err = insertUpload(ctx, tx, u, ref, f.now()); err != nil {
					return err
				}
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO upload_pieces (upload_id, n, data) VALUES (?, ?, ?)`, id, n, piece)
			if err == nil && last {
				_, err = tx.ExecContext(ctx, `UPDATE uploads SET state = ? WHERE id = ?`, uploads.Ready, id)
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
		ref, string(u.Key), db.Text(u.Name), db.Text(u.MediaType), len(u.Data), uploads.Coming, db.Millis(at))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// Get returns an upload with its bytes, or ErrNotFound.
func (f *Files) Get(ctx context.Context, ref string) (Upload, error) {
	var u Upload
	var id, at, size int64
	err := f.db.QueryRowContext(ctx, `
		SELECT id, session, name, media_type, size, created_at FROM uploads WHERE ref = ? AND state IN (?, ?)`,
		ref, uploads.Ready, uploads.Accepted).Scan(&id, &u.Key, &u.Name, &u.MediaType, &size, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return u, ErrNotFound
	}
	if err != nil {
		return u, db.Explain(err)
	}
	u.At = db.FromMillis(at)
	rows, err := f.db.QueryContext(ctx, `SELECT data FROM upload_pieces WHERE upload_id = ? ORDER BY n`, id)
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
		return u, ErrNotFound
	}
	u.Data = data.Bytes()
	return u, nil
}

// GoneError says that a file can't be fetched, now or later.
type GoneError struct {
	Words string // for the user and the model: "it was deleted"
}

func (e *GoneError) Error() string { return e.Words }
