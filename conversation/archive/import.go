package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/internal/clock"
)

// An import writes in batches so small that no other write waits long, and
// rests between them. A conversation of many batches can't be seen by anybody
// until the last one: it is staged. What a crash leaves staged is swept away
// before the next import.

// Imported is a finished conversation from elsewhere.
type Imported struct {
	ID        string // UUIDv7, the same whenever it is imported
	Title     string
	CreatedAt time.Time
	UpdatedAt time.Time
	Messages  []conversation.Message // in order, each with its tokens and its time; Seq and RunID are given by the store

	// Open opens a file of a message that has a Source, by the Ref of that. It may be nil where
	// no message has one.
	Open func(ref string) (io.ReadCloser, error)

	// Tokens returns the tokens of a message with the files that are kept of it. nil: they are
	// those that the message has.
	Tokens func(conversation.Message) int
}

const (
	importLock = "import"

	importBatch = 200     // messages written in one transaction
	importBytes = 1 << 20 // bytes of text written in one transaction; a longer message has one of its own
)

// ErrUnderWay is returned while another process imports into the database.
var ErrUnderWay = errors.New("another import into this database is under way")

// Import adds archived conversations to a session. Other processes may work
// the session meanwhile: its active conversation is not touched.
type Import struct {
	*Archive
	// Files says how the files of imported messages are kept. The zero value names them.
	Files Keeping

	key     conversation.Key
	goesOn  bool // a conversation that was active where it was exported becomes active, see Into
	opened  bool // conversations become active whatever they were, see Open
	release func()
}

// Import prepares an import into a session, which is made when it is new.
// One at a time may be under way in a database. Close ends it.
func (s *Archive) Import(ctx context.Context, key conversation.Key) (*Import, error) {
	release, err := s.db.Lock(importLock)
	var held *db.HeldError
	if errors.As(err, &held) {
		return nil, fmt.Errorf("%w (%s): wait for it", ErrUnderWay, held.Holder())
	}
	if err != nil {
		return nil, err
	}
	im := &Import{Archive: s, key: key, release: release}
	if err := im.clean(ctx); err != nil {
		release()
		return nil, err
	}
	return im, nil
}

// clean sweeps away what an import left that was killed.
func (im *Import) clean(ctx context.Context) error {
	err := im.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE conversations SET deleted = 1, staged = 0 WHERE staged = 1 OR deleted = 2`); err != nil { // 2: of a gateway before schema 18
			return err
		}
		return dropUnclaimed(ctx, tx)
	})
	if err != nil {
		return err
	}
	return im.store.Sweep(ctx) // a conversation that was deleted may be imported again
}

// Close ends the import; what was added can be searched when it returns.
func (im *Import) Close(ctx context.Context) error {
	defer im.release()
	return im.store.Sweep(ctx)
}

// Add stores a conversation whole, or not at all. added is false when it is
// there already, in whatever session.
func (im *Import) Add(ctx context.Context, c Imported) (added bool, err error) {
	if known, err := im.Known(ctx, c.ID); known || err != nil {
		return false, err
	}
	var row int64
	tokens := 0
	for from := 0; from < len(c.Messages); {
		to := from + batchLength(c.Messages[from:])
		if err := im.prepare(ctx, c, c.Messages[from:to]); err != nil {
			return false, cmp.Or(err, im.abandon(ctx, row))
		}
		for _, m := range c.Messages[from:to] {
			tokens += m.Tokens
		}
		began := time.Now()
		err := im.db.Write(ctx, func(ctx context.Context, tx db.Tx) (err error) {
			if from == 0 {
				if row, err = im.stage(ctx, tx, c); err != nil {
					return err
				}
			}
			if err := insertImported(ctx, tx, row, c.Messages[from:to], from); err != nil || to < len(c.Messages) {
				return err
			}
			if _, err = tx.ExecContext(ctx, `UPDATE conversations SET deleted = 0, staged = 0, tokens = ? WHERE id = ?`, tokens, row); err != nil {
				return err
			}
			return im.open(ctx, tx, row)
		})
		if err != nil {
			return false, cmp.Or(err, im.abandon(ctx, row))
		}
		from = to
		giveWay(ctx, began)
	}
	return len(c.Messages) > 0, nil
}

// open makes an imported conversation the active one of its session, if Open was called and the session
// has no other active one.
func (im *Import) open(ctx context.Context, tx db.Tx, row int64) error {
	if !im.opened {
		return nil
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE conversations SET active = 1, updated_at = ? WHERE id = ?
			AND NOT EXISTS (SELECT 1 FROM conversations o WHERE o.session_id = conversations.session_id AND o.active = 1 AND o.id <> conversations.id)`,
		db.Millis(im.store.Now()), row)
	return err
}

// giveWay waits as long as the work since a time took, so that half of the time is for whoever else writes.
func giveWay(ctx context.Context, began time.Time) {
	_ = clock.Sleep(ctx, time.Since(began)) // whose error the next step has
}

// batchLength returns how many of the messages are written in one transaction.
func batchLength(messages []conversation.Message) int {
	for n, size := 0, 0; n < len(messages); n++ {
		if size += len(messages[n].Content); n == importBatch || n > 0 && size > importBytes {
			return n
		}
	}
	return len(messages)
}

// stage inserts the conversation, hidden. Its tokens are not known before the end.
func (im *Import) stage(ctx context.Context, tx db.Tx, c Imported) (row int64, err error) {
	session, _, err := rows.EnterSession(ctx, tx, string(im.key), "", db.Millis(im.store.Now()))
	if err != nil {
		return 0, err
	}
	reached, err := json.Marshal(im.store.StateOf(c.Messages))
	if err != nil {
		return 0, err
	}
	return db.Insert(ctx, tx, `
		INSERT INTO conversations (uuid, session_id, title, active, deleted, staged, messages, tokens, state, created_at, updated_at)
		VALUES (?, ?, ?, 0, 1, 1, ?, 0, ?, ?, ?)`,
		c.ID, session, db.Text(c.Title), len(c.Messages), string(reached), db.Millis(c.CreatedAt), db.Millis(c.UpdatedAt))
}

func insertImported(ctx context.Context, tx db.Tx, row int64, messages []conversation.Message, after int) error {
	for i, m := range messages {
		m.Seq = int64(after + i + 1)
		if m.State, m.SetAside = "", nil; m.Stopped {
			m.State = rows.Stopped
		}
		if _, err := conversation.InsertMessage(ctx, tx, row, m); err != nil {
			return err
		}
	}
	return nil
}

// abandon leaves a conversation that can't be finished to the sweep, which deletes it.
func (im *Import) abandon(ctx context.Context, row int64) error {
	return im.db.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx db.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE conversations SET staged = 0 WHERE id = ? AND staged = 1`, row); err != nil {
			return err
		}
		return dropUnclaimed(ctx, tx)
	})
}

// Known reports whether there is a conversation with the ID, in any session.
func (s *Archive) Known(ctx context.Context, id string) (known bool, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM conversations WHERE uuid = ?)`, id).Scan(&known)
	return known, db.Explain(err)
}
