package files

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/uploads"
)

// Uploaded is a stored upload.
type Uploaded struct {
	Ref, Name, MediaType string
	Size                 int64
	IsReady              bool // no message has named it so far

	hash string // SHA-256 of the bytes in hexadecimal, "" if it was stored by Put
}

// Uploaded returns an upload for a session by its ref. The error is ErrNotFound if there is
// none. After a run has read an upload, one of PutOnce is known for at least a week more, and
// one of Put is not.
func (f *Files) Uploaded(ctx context.Context, key conversation.Key, ref string) (Uploaded, error) {
	return f.uploaded(ctx, `ref = ?`, key, ref)
}

// UploadedOnce returns an upload of PutOnce for a session by its sender's id. The error is
// ErrNotFound if there is none.
func (f *Files) UploadedOnce(ctx context.Context, key conversation.Key, id string) (Uploaded, error) {
	return f.uploaded(ctx, `key = ?`, key, id)
}

func (f *Files) uploaded(ctx context.Context, condition string, key conversation.Key, arg string) (u Uploaded, err error) {
	var state uploads.State
	err = f.db.QueryRowContext(ctx, `SELECT ref, name, media_type, size, hash, state FROM uploads WHERE session = ? AND state <> 'coming' AND `+condition,
		string(key), arg).Scan(&u.Ref, &u.Name, &u.MediaType, &u.Size, &u.hash, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return u, ErrNotFound
	}
	u.IsReady = state == uploads.Ready
	return u, db.Explain(err)
}

// PutOnce is Put for an upload that its sender may repeat. id is the sender's id for the upload,
// unique in the session: a repeated upload is not stored again, and PutOnce returns the first one.
// If the first one had other bytes, another name or another type, the error is
// conversation.ErrReused.
func (f *Files) PutOnce(ctx context.Context, u Upload, id string) (Uploaded, error) {
	first, err := f.UploadedOnce(ctx, u.Key, id)
	hash := sha256.New()
	u.Body = io.TeeReader(u.Body, hash)
	switch {
	case err == nil:
		if n, err := io.Copy(io.Discard, io.LimitReader(u.Body, u.Most+1)); err != nil || n > u.Most {
			return Uploaded{}, firstOf(err, ErrTooLarge)
		}
		return first, first.sameAs(u, hex.EncodeToString(hash.Sum(nil)))
	case !errors.Is(err, ErrNotFound):
		return Uploaded{}, err
	}
	ref, size, err := f.Put(ctx, u)
	if err != nil {
		return Uploaded{}, err
	}
	stored := Uploaded{ref, u.Name, u.MediaType, size, true, hex.EncodeToString(hash.Sum(nil))}
	return f.setID(ctx, u, id, stored)
}

// setID sets the sender's id of a stored upload. If another upload with the id was stored
// meanwhile, setID returns that one, and marks this one for deletion.
func (f *Files) setID(ctx context.Context, u Upload, id string, stored Uploaded) (Uploaded, error) {
	won := false
	err := f.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		result, err := tx.ExecContext(ctx, `
			UPDATE uploads SET key = ?1, hash = ?2 WHERE ref = ?3 AND NOT EXISTS (SELECT 1 FROM uploads WHERE session = ?4 AND key = ?1)`,
			id, stored.hash, stored.Ref, string(u.Key))
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if won = n > 0; err == nil && !won {
			_, err = tx.ExecContext(ctx, `UPDATE uploads SET state = ? WHERE ref = ?`, uploads.Taken, stored.Ref)
		}
		return err
	})
	if err != nil || won {
		return stored, err
	}
	first, err := f.UploadedOnce(ctx, u.Key, id)
	if err == nil {
		err = first.sameAs(u, stored.hash)
	}
	return first, err
}

// sameAs returns an error that wraps conversation.ErrReused if the other upload has other bytes,
// another name or another type.
func (u Uploaded) sameAs(other Upload, hash string) error {
	if u.hash != hash || u.Name != db.Text(other.Name) || u.MediaType != db.Text(other.MediaType) {
		return fmt.Errorf("upload of %q: %w", other.Name, conversation.ErrReused)
	}
	return nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Room returns how many bytes a further upload for a session may have: what the limits leave,
// beside all kept files and present uploads. The error is a *RefusedError if size bytes are too
// many.
func (f *Files) Room(ctx context.Context, key conversation.Key, limits Limits, size int64) (int64, error) {
	used, err := f.used(ctx, f.db, key)
	if err != nil {
		return 0, db.Explain(err)
	}
	var session, total int64
	err = f.db.QueryRowContext(ctx, `
		SELECT coalesce(sum(size) FILTER (WHERE session = ?), 0), coalesce(sum(size), 0) FROM uploads WHERE state IN ('ready', 'accepted')`,
		string(key)).Scan(&session, &total)
	if err != nil {
		return 0, db.Explain(err)
	}
	used.session, used.total = used.session+session, used.total+total
	if err := used.check(limits, max(size, 1)); err != nil {
		return 0, err
	}
	return min(limits.MaxFile, limits.MaxSession-used.session, limits.MaxTotal-used.total), nil
}
