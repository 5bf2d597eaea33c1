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
	Inline     int64 // the size in bytes up to which a file is kept in the database; a larger one is kept in the folder beside it
	MaxFile    int64 // the maximum size of a file in bytes
	MaxSession int64 // the maximum size of all files of a session
	MaxTotal   int64 // the maximum size of all files
}

// DefaultLimits returns the limits for a configuration that sets none.
func DefaultLimits() Limits {
	return Limits{Inline: 1 << 20, MaxFile: 50 << 20, MaxSession: 1 << 30, MaxTotal: 10 << 30}
}

// Incoming is a file that came with a message and is to be kept.
type Incoming struct {
	Session    conversation.Key
	Inbound    int64 // the ID of the inbound; 0 = the message is imported, and the file is not tied to it yet
	N          int   // the place among the files of the inbound, from 0
	Late       int64 // the ID of a missing file, which is fetched after its message; 0 = the file has none yet. If set, Inbound and N are ignored
	Attachment media.Attachment

	// Open opens the file where its channel has it. Its errors are those of
	// channels.Fetcher.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// File is a file of a message. Its bytes are kept, or it is missing, because it could not be fetched.
type File struct {
	ID        int64
	Session   conversation.Key
	Name      string
	Declared  string    // the media type that its sender or platform gave
	MediaType string    // the media type that was found from the bytes, "" for a missing file
	Size      int64     // bytes; of a missing file, as its platform said
	Hash      string    // SHA-256 of the bytes in hexadecimal, "" for a missing file
	At        time.Time // when it was stored

	Conversation string // the ID of its message's conversation, "" until the run of the message is committed
	Seq          int64  // the seq of its message, 0 until then

	blob blobs.Blob
}

// IsHere reports whether the bytes of the file are kept.
func (f File) IsHere() bool { return f.blob.ID != 0 }

// RefusedError says that a file is not kept because it exceeds a limit. Another attempt would
// not help.
type RefusedError struct {
	Words string // for the user and the model: "it is larger than 50.0 MiB, and at most ..."
}

func (e *RefusedError) Error() string { return e.Words }

// StoreError says that a file could not be stored, as on a full disk.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "the gateway could not store it" }
func (e *StoreError) Unwrap() error { return e.Err }

// Keep fetches a file and stores it. A file that was stored before is returned and not fetched
// again. Keep holds at most limits.Inline bytes and a buffer in memory. The error is that of
// in.Open or of reading, a *RefusedError or a *StoreError; the texts are for the user.
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
	defer func() { _ = draft.Close(stored) }() // the cleanup removes what it leaves behind
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

// storeError returns err as a *StoreError, nil if err is nil.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{db.Explain(err)}
}

// refusedOr returns a *RefusedError in err, or err as a *StoreError.
func refusedOr(err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused
	}
	return storeError(err)
}

// known returns the file that was stored before, for example by a process that has died
// since. It returns the zero value if there is none.
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

// usage is the number of bytes of kept files: those of a session, and all.
type usage struct{ session, total int64 }

func (f *Files) used(ctx context.Context, q db.Querier, session conversation.Key) (u usage, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT (SELECT coalesce(sum(b.size), 0) FROM files f JOIN blobs b ON b.id = f.blob_id WHERE f.session_id = (SELECT id FROM sessions WHERE key = ?)),
			(SELECT coalesce(sum(size), 0) FROM blobs)`, string(session)).Scan(&u.session, &u.total)
	return u, err
}

// check returns a *RefusedError if a further file of size bytes exceeds a limit.
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
	if size > limits.MaxFile+1 { // at MaxFile+1 bytes the reading ended, so the whole size is not known
		return &RefusedError{fmt.Sprintf("it has %s, and at most %s of a file are kept", Size(size), Size(limits.MaxFile))}
	}
	return &RefusedError{fmt.Sprintf("it has more than %s, the most of a file that is kept", Size(limits.MaxFile))}
}

// receive reads a file into a draft. It reads at most one byte more than the limits allow.
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

// keepBytes stores the row and the bytes of a received file. It checks the limits again, since other
// files may have been stored meanwhile.
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

// Missing is a file that could not be fetched or read with its message.
type Missing struct {
	File
	Source media.Source
}

// Missing returns the files of a session that could not be fetched or read with their messages
// and whose next attempt is due, at most 10. They include files that were fetched since but that no
// committed run has told the model about. none is true if the session has no such file, not even
// one whose next attempt is due later.
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

// maxMissing is how many missing files a run fetches, at most.
const maxMissing = 10

// Postpone stores how many attempts to fetch or read a file have failed, and when the next one is
// due. If next is zero, there will be none.
func (f *Files) Postpone(ctx context.Context, id int64, attempts int, next time.Time) error {
	at := sql.NullInt64{Int64: db.Millis(next), Valid: !next.IsZero()}
	return f.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE files SET attempts = ?, next_at = ? WHERE id = ?`, attempts, at, id)
		return err
	})
}

// NotShown returns the line of a message about a file whose text is kept but is not part of the message.
func NotShown(name string, size int64) string {
	return fmt.Sprintf("[file %s, %s, not shown: read_file shows it]", name, Size(size))
}

// Size returns a number of bytes for people, "1.5 MiB".
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
