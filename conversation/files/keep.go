package files

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"parley/conversation"
	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/media"
)

// Limits bound what is kept of files. The zero value keeps nothing.
type Limits struct {
	Inline     int64 // bytes up to which a file is kept in the database; a larger one is kept in the folder beside it
	MaxFile    int64 // bytes of a file
	MaxSession int64 // bytes of all files of a session
	MaxTotal   int64 // bytes of all files
}

// DefaultLimits returns the limits that hold where the configuration says nothing.
func DefaultLimits() Limits {
	return Limits{Inline: 1 << 20, MaxFile: 50 << 20, MaxSession: 1 << 30, MaxTotal: 10 << 30}
}

// Incoming is a file that came with a message and is to be kept.
type Incoming struct {
	Session    conversation.Key
	Inbound    int64 // ID of the message; 0 = it is an imported one, and has the file once it is stored
	N          int   // place among the files of the message, from 0
	Late       int64 // ID of the file, where it could not be fetched with its message; then Inbound and N say nothing
	Attachment media.Attachment

	// Open opens the file where its channel has it. Its errors are those of
	// channels.Fetcher.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// File is a file that is kept, or is still missing.
type File struct {
	ID        int64
	Session   conversation.Key
	Name      string
	Declared  string // media type, as its sender or platform says
	MediaType string // as the bytes show, "" for one that is missing
	Size      int64  // bytes
	Hash      string // SHA-256 of the bytes in hexadecimal, "" for one that is missing
	At        time.Time

	Conversation string // ID of the conversation whose message it belongs to, "" until its run is committed
	Seq          int64  // of that message

	blob blobs.Blob
}

// IsHere reports whether the bytes of the file are kept.
func (f File) IsHere() bool { return f.blob.ID != 0 }

// RefusedError says why a file is not kept: it is beyond a limit. No other attempt
// can help.
type RefusedError struct {
	Words string // for the user and the model: "it is larger than 50.0 MiB, and at most ..."
}

func (e *RefusedError) Error() string { return e.Words }

// StoreError says that a file could not be stored, as on a full disk.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "the gateway could not store it" }
func (e *StoreError) Unwrap() error { return e.Err }

// Keep fetches a file and stores it. If the file was stored before, it is returned and not
// fetched again. It holds at most limits.Inline bytes and a
// buffer in memory. The errors are those of Open, a *RefusedError or a *StoreError;
// their texts are for the user.
func (f *Files) Keep(ctx context.Context, in Incoming, limits Limits) (File, error) {
	known, err := f.known(ctx, in)
	if err != nil || known.IsHere() {
		return known, storeError(err)
	}
	if in.Attachment.Size > limits.MaxFile {
		return File{}, refusedFile(limits, in.Attachment.Size)
	}
	used, err := f.used(ctx, f.db, in.Session)
	if err == nil {
		err = used.check(limits, max(in.Attachment.Size, 1))
	}
	if err != nil {
		return File{}, refusedOr(err)
	}
	body, err := in.Open(ctx)
	if err != nil {
		return File{}, err
	}
	defer body.Close()
	draft := blobs.NewDraft(f.db.Path(), limits.Inline)
	stored := false
	defer func() { _ = draft.Close(stored) }() // what it leaves is removed as a leftover
	if err := receive(draft, body, limits, used); err != nil {
		return File{}, err
	}
	id, err := f.keepBytes(ctx, in, draft, limits)
	if err != nil {
		return File{}, err
	}
	stored = true
	kept, err := f.File(ctx, in.Session, id)
	return kept, storeError(err)
}

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{db.Explain(err)}
}

func refusedOr(err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused
	}
	return storeError(err)
}

// known returns the file if it was stored before, for example by a process that has died
// since.
func (f *Files) known(ctx context.Context, in Incoming) (File, error) {
	if in.Inbound == 0 && in.Late == 0 {
		return File{}, nil
	}
	condition, args := `f.inbox_id = ? AND f.n = ?`, []any{in.Inbound, in.N}
	if in.Late != 0 {
		condition, args = `f.id = ?`, []any{in.Late}
	}
	list, err := f.list(ctx, `WHERE `+condition+` AND s.key = ?`, append(args, string(in.Session))...)
	if err != nil || len(list) == 0 {
		return File{}, err
	}
	return list[0], nil
}

// usage is the number of bytes of kept files.
type usage struct{ session, total int64 }

func (f *Files) used(ctx context.Context, q db.Querier, session conversation.Key) (u usage, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT (SELECT coalesce(sum(b.size), 0) FROM files f JOIN blobs b ON b.id = f.blob_id WHERE f.session_id = (SELECT id FROM sessions WHERE key = ?)),
			(SELECT coalesce(sum(size), 0) FROM blobs)`, string(session)).Scan(&u.session, &u.total)
	return u, err
}

// check returns a *RefusedError when a file of so many bytes is beyond a limit.
func (u usage) check(limits Limits, size int64) error {
	switch {
	case size > limits.MaxFile:
		return refusedFile(limits, size)
	case u.session+size > limits.MaxSession:
		return &RefusedError{fmt.Sprintf("the files of this chat have %s, and at most %s are kept", Size(u.session), Size(limits.MaxSession))}
	case u.total+size > limits.MaxTotal:
		return &RefusedError{fmt.Sprintf("the files of all chats have %s, and at most %s are kept", Size(u.total), Size(limits.MaxTotal))}
	}
	return nil
}

func refusedFile(limits Limits, size int64) error {
	if size > limits.MaxFile+1 { // otherwise the exact size is unknown
		return &RefusedError{fmt.Sprintf("it has %s, and at most %s of a file are kept", Size(size), Size(limits.MaxFile))}
	}
	return &RefusedError{fmt.Sprintf("it has more than %s, the most of a file that is kept", Size(limits.MaxFile))}
}

// receive reads a file into a draft, and no more than may be kept.
func receive(draft *blobs.Draft, body io.Reader, limits Limits, used usage) error {
	room := min(limits.MaxFile, limits.MaxSession-used.session, limits.MaxTotal-used.total)
	buffer := make([]byte, 64<<10)
	for body := io.LimitReader(body, room+1); ; {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, err := draft.Write(buffer[:n]); err != nil {
				return storeError(err)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := used.check(limits, draft.Size()); err != nil {
		return err
	}
	return storeError(draft.Finish())
}

// keepBytes adds the row of a file that was received. Others may have stored files
// meanwhile, so the limits are checked once more.
func (f *Files) keepBytes(ctx context.Context, in Incoming, draft *blobs.Draft, limits Limits) (id int64, err error) {
	err = f.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		used, err := f.used(ctx, tx, in.Session)
		if err == nil {
			err = used.check(limits, draft.Size())
		}
		if err != nil {
			return err
		}
		now := db.Millis(f.store.Now())
		blob, err := draft.Add(ctx, tx, now)
		if err != nil {
			return err
		}
		if id = in.Late; id != 0 {
			_, err = tx.ExecContext(ctx, `UPDATE files SET blob_id = ?, source = NULL WHERE id = ?`, blob, id)
			return err
		}
		return tx.QueryRowContext(ctx, `
			INSERT INTO files (session_id, inbox_id, n, name, media_type, size, blob_id, created_at)
			SELECT id, nullif(CAST(?2 AS BIGINT), 0), ?3, ?4, ?5, ?6, ?7, ?8 FROM sessions WHERE key = ?1
			ON CONFLICT (inbox_id, n) WHERE inbox_id IS NOT NULL DO UPDATE SET blob_id = excluded.blob_id
			RETURNING id`, string(in.Session), in.Inbound, in.N, db.Text(in.Attachment.Name), db.Text(in.Attachment.MediaType), draft.Size(), blob, now).Scan(&id)
	})
	if err != nil {
		return 0, refusedOr(err)
	}
	return id, nil
}

// Missing is a file that could not be fetched with its message.
type Missing struct {
	File
	Source media.Source
}

// Missing lists the files of a session whose next attempt is due, or that came since
// and nobody was told of. A run tells of those that it has, see [media.File]. none is true
// where the session has no such file, and none whose next attempt is due later.
func (f *Files) Missing(ctx context.Context, session conversation.Key) (list []Missing, none bool, err error) {
	rows, err := db.Short(ctx, f.db, `
		SELECT f.id, coalesce(f.source, '{}'), f.attempts, f.next_at FROM files f
		WHERE f.session_id = (SELECT id FROM sessions WHERE key = ?) AND f.next_at IS NOT NULL ORDER BY f.next_at LIMIT ?`,
		string(session), maxMissing)
	if err != nil {
		return nil, false, db.Explain(err)
	}
	defer rows.Close()
	none = true
	for now := db.Millis(f.store.Now()); rows.Next(); none = false {
		var m Missing
		var source []byte
		var due int64
		if err := rows.Scan(&m.ID, &source, &m.Source.Attempts, &due); err != nil {
			return nil, false, err
		}
		if due > now {
			continue
		}
		if err := json.Unmarshal(source, &m.Source); err != nil {
			return nil, false, err
		}
		list = append(list, m)
	}
	if err := rows.Err(); err != nil {
		return nil, false, db.Explain(err)
	}
	for i := range list {
		if list[i].File, err = f.File(ctx, session, list[i].ID); err != nil {
			return nil, false, err
		}
	}
	return list, none, nil
}

// maxMissing is how many missing files a run fetches.
const maxMissing = 10

// Postpone stores that another attempt to fetch or read a file has failed. A zero next
// says that there will be none.
func (f *Files) Postpone(ctx context.Context, id int64, attempts int, next time.Time) error {
	at := sql.NullInt64{Int64: db.Millis(next), Valid: !next.IsZero()}
	return f.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE files SET attempts = ?, next_at = ? WHERE id = ?`, attempts, at, id)
		return err
	})
}

// NotShown returns the line of a message about a file whose text is kept, and not shown there.
func NotShown(name string, size int64) string {
	return fmt.Sprintf("[file %s, %s, not shown: read_file shows it]", name, Size(size))
}

// Size returns a number of bytes as people write it.
func Size(bytes int64) string {
	switch {
	case bytes == 1:
		return "1 byte"
	case bytes < 1<<10:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", bytes>>10)
	case bytes < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
