// Package files keeps the files of messages. It also keeps uploads, which are not stored on a
// platform, until a run has read them. Uploads are written and deleted piece by piece, so that
// no other write waits long.
package files

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/filepages"
	"parley/conversation/internal/uploads"
)

const (
	// PageSize is the size of a page of a file's text in bytes.
	PageSize = filepages.Size

	// InMessage is how many bytes of a file's text a message holds, at most. The pages after
	// that are in the search index separately.
	InMessage = filepages.InMessage
)

// Files gives access to the files and uploads of a store.
type Files struct {
	store *conversation.Store
	db    *db.DB
}

// New returns the files of a store.
func New(store *conversation.Store) *Files { return &Files{store, store.DB()} }

// Upload is a file that is being uploaded.
type Upload struct {
	Key       conversation.Key // the session that it is for
	Name      string
	MediaType string    // as the sender says, "image/png"
	Body      io.Reader // the bytes of the file, which are read once
	Most      int64     // the maximum size in bytes
}

// KeepUpload is how long an upload waits for a message that names it.
const KeepUpload = uploads.Keep

// ErrNotFound says that there is no such upload or file, or that it was deleted.
var ErrNotFound = errors.New("no such file")

// ErrTooLarge says that an upload is larger than Upload.Most.
var ErrTooLarge = errors.New("the file is too large")

// Put stores a file. It returns the size in bytes, and the Ref by which an Attachment of an
// inbound with Keep names the file; it can't be guessed. Put holds 1 MiB of the file in memory.
// The file is deleted when a run has settled the inbound, or after a day if no inbound names it.
// The error is that of Body, ErrTooLarge, conversation.ErrInvalid for an empty file, or an error of
// the store.
func (f *Files) Put(ctx context.Context, u Upload) (ref string, size int64, err error) {
	piece := make([]byte, uploads.Piece)
	var id int64
	ref = rand.Text()
	for n, last := 0, false; !last; n++ {
		length, err := io.ReadFull(u.Body, piece)
		last = err == io.EOF || err == io.ErrUnexpectedEOF
		if size += int64(length); size > u.Most {
			err = ErrTooLarge
		} else if last {
			err = nil
		}
		if err == nil && size == 0 {
			return "", 0, fmt.Errorf("%w: the file is empty", conversation.ErrInvalid)
		}
		if err != nil {
			f.abandon(ctx, id)
			return "", size, err
		}
		err = f.db.Write(ctx, func(ctx context.Context, tx db.Tx) (err error) {
			if n == 0 {
				if id, err = insertUpload(ctx, tx, u, ref, f.store.Now()); err != nil {
					return err
				}
			}
			if length > 0 {
				if _, err = tx.ExecContext(ctx, `INSERT INTO upload_pieces (upload_id, n, data) VALUES (?, ?, ?)`, id, n, piece[:length]); err != nil {
					return err
				}
			}
			if last {
				_, err = tx.ExecContext(ctx, `UPDATE uploads SET state = ?, size = ? WHERE id = ?`, uploads.Ready, size, id)
			}
			return err
		})
		if err != nil {
			return "", size, fmt.Errorf("store the file %q of %s: %w", u.Name, u.Key, err)
		}
	}
	return ref, size, nil
}

// abandon marks an incomplete upload for deletion. If that fails, the upload is deleted after a
// day.
func (f *Files) abandon(ctx context.Context, id int64) {
	if id == 0 {
		return
	}
	_ = f.db.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE uploads SET state = ? WHERE id = ?`, uploads.Taken, id)
		return err
	})
}

func insertUpload(ctx context.Context, tx db.Tx, u Upload, ref string, at time.Time) (id int64, err error) {
	return db.Insert(ctx, tx, `
		INSERT INTO uploads (ref, session, name, media_type, size, state, created_at) VALUES (?, ?, ?, ?, 0, ?, ?)`,
		ref, string(u.Key), db.Text(u.Name), db.Text(u.MediaType), uploads.Coming, db.Millis(at))
}

// OpenUpload opens an upload. The error is ErrNotFound if there is none. The reader reads it
// piece by piece; its error is ErrNotFound if the upload is deleted meanwhile, because a run has
// read it.
func (f *Files) OpenUpload(ctx context.Context, ref string) (io.ReadCloser, error) {
	u := &uploadReader{ctx: ctx, db: f.db}
	err := f.db.QueryRowContext(ctx, `SELECT id, size FROM uploads WHERE ref = ? AND state IN (?, ?)`,
		ref, uploads.Ready, uploads.Accepted).Scan(&u.id, &u.left)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return u, db.Explain(err)
}

// uploadReader reads an upload.
type uploadReader struct {
	ctx   context.Context
	db    *db.DB
	id    int64
	n     int    // the number of the next piece
	piece []byte // the rest of the present piece
	left  int64  // the number of bytes in the pieces from n on
}

func (u *uploadReader) Read(p []byte) (int, error) {
	if len(u.piece) == 0 {
		if u.left <= 0 {
			return 0, io.EOF
		}
		err := u.db.QueryRowContext(u.ctx, `SELECT data FROM upload_pieces WHERE upload_id = ? AND n = ?`, u.id, u.n).Scan(&u.piece)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, ErrNotFound
		}
		if err != nil {
			return 0, db.Explain(err)
		}
		u.n++
		u.left -= int64(len(u.piece))
	}
	n := copy(p, u.piece)
	u.piece = u.piece[n:]
	return n, nil
}

func (*uploadReader) Close() error { return nil }

// GoneError says that a file can't be fetched, now or later.
type GoneError struct {
	Words string // for the user and the model: "it was deleted"
}

func (e *GoneError) Error() string { return e.Words }
