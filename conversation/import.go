package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/conversation/internal/db"
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
	Messages  []Message // in order, each with its tokens and its time; Seq and RunID are given by the store
}

const (
	importLock = "import"

	importBatch = 200     // messages written in one transaction
	importBytes = 1 << 20 // of text, likewise; a longer message goes alone
)

// Import adds archived conversations to a session. Other processes may work
// the session meanwhile: its active conversation is not touched.
type Import struct {
	store   *Store
	key     Key
	release func()
}

// BeginImport prepares an import into a session, which is made when it is new.
// One at a time may be under way in a database. Close ends it.
func (s *Store) BeginImport(ctx context.Context, key Key) (*Import, error) {
	release, err := s.db.Lock(importLock)
	var held *db.HeldError
	if errors.As(err, &held) {
		return nil, fmt.Errorf("another import into this database is under way (process %d): wait for it", held.PID)
	}
	if err != nil {
		return nil, err
	}
	im := &Import{store: s, key: key, release: release}
	if err := im.clean(ctx); err != nil {
		release()
		return nil, err
	}
	return im, nil
}

// clean sweeps away what an import left that was killed.
func (im *Import) clean(ctx context.Context) error {
	err := im.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE conversations SET deleted = 1, staged = 0 WHERE staged = 1 OR deleted = 2`) // 2: of a gateway before schema 18
		return err
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
	if known, err := im.store.Known(ctx, c.ID); known || err != nil {
		return false, err
	}
	var row int64
	for from := 0; from < len(c.Messages); {
		to := from + batchLength(c.Messages[from:])
		began := time.Now()
		err := im.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			if from == 0 {
				if row, err = im.stage(ctx, tx, c); err != nil {
					return err
				}
			}
			if err := insertImported(ctx, tx, row, c.Messages[from:to], from); err != nil || to < len(c.Messages) {
				return err
			}
			_, err = tx.ExecContext(ctx, `UPDATE conversations SET deleted = 0, staged = 0 WHERE id = ?`, row)
			return err
		})
		if err != nil {
			return false, errors.Join(err, im.abandon(ctx, row))
		}
		from = to
		_ = clock.Sleep(ctx, time.Since(began)) // half of the time is for whoever else writes
	}
	return len(c.Messages) > 0, nil
}

// batchLength is how many of the messages go in one transaction.
func batchLength(messages []Message) int {
	for n, size := 0, 0; n < len(messages); n++ {
		if size += len(messages[n].Content); n == importBatch || n > 0 && size > importBytes {
			return n
		}
	}
	return len(messages)
}

// stage inserts the conversation with its totals, hidden.
func (im *Import) stage(ctx context.Context, tx *sql.Tx, c Imported) (row int64, err error) {
	session, _, err := EnterSession(ctx, tx, im.key, "", db.Millis(im.store.now()))
	if err != nil {
		return 0, err
	}
	tokens := 0
	for _, m := range c.Messages {
		tokens += m.Tokens
	}
	state, err := json.Marshal(State{}.after(Run{Messages: c.Messages}))
	if err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO conversations (uuid, session_id, title, active, deleted, staged, messages, tokens, state, created_at, updated_at)
		VALUES (?, ?, ?, 0, 1, 1, ?, ?, ?, ?, ?)`,
		c.ID, session, db.Text(c.Title), len(c.Messages), tokens, string(state), db.Millis(c.CreatedAt), db.Millis(c.UpdatedAt))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func insertImported(ctx context.Context, tx *sql.Tx, row int64, messages []Message, after int) error {
	for i, m := range messages {
		m.Seq = int64(after + i + 1)
		if _, err := insertMessage(ctx, tx, row, m); err != nil {
			return err
		}
	}
	return nil
}

// abandon has a conversation swept away that can't be finished.
func (im *Import) abandon(ctx context.Context, row int64) error {
	return im.store.db.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE conversations SET staged = 0 WHERE id = ? AND staged = 1`, row)
		return err
	})
}

// Known says whether there is a conversation with the ID, in any session.
func (s *Store) Known(ctx context.Context, id string) (known bool, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM conversations WHERE uuid = ?)`, id).Scan(&known)
	return known, db.Explain(err)
}
