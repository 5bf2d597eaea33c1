package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/wordindex"
)

// A conversation is deleted in two steps: the commit hides it, whatever its
// length, and its rows are swept away in the background, in steps so small that
// no write waits long. A crash in between is caught up with at the next start.

const (
	sweepBatch = 200     // rows that go in one transaction
	sweepBytes = 4 << 20 // of words and pictures, likewise; a larger message goes alone
)

// sweep deletes some rows of deleted conversations, at last themselves. done
// says that there is none left. Every message must be in the index already: what
// is not can't be taken out of it. It leaves the conversations of without as they
// are.
func sweep(ctx context.Context, tx *sql.Tx, without []int64) (done bool, err error) {
	room := sweepRoom{rows: sweepBatch, bytes: sweepBytes}
	for !room.spent() {
		id, err := nextToDelete(ctx, tx, without)
		if errors.Is(err, sql.ErrNoRows) {
			return room.rows == sweepBatch, nil
		}
		if err == nil {
			err = sweepConversation(ctx, tx, id, &room)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// nextToDelete returns a deleted conversation that still has rows.
func nextToDelete(ctx context.Context, q db.Querier, without []int64) (id int64, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT id FROM conversations WHERE deleted = 1 AND staged = 0 AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT 1`, db.IDs(without)).Scan(&id)
	return id, err
}

// sweepRoom counts what one transaction may still delete.
type sweepRoom struct{ rows, bytes int64 }

func (r *sweepRoom) spent() bool { return r.rows <= 0 || r.bytes <= 0 }

// sweepConversation deletes what there is room for, in the order of messages,
// runs and the conversation itself.
func sweepConversation(ctx context.Context, tx *sql.Tx, id int64, room *sweepRoom) error {
	last, err := nextToSweep(ctx, tx, id, room)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM messages WHERE conversation_id = ? AND seq <= ?`, id, last); err != nil {
		return err
	}
	if err := wordindex.MessagesDeleted(ctx, tx); err != nil || room.spent() {
		return err
	}
	n, err := rows.ForgetRuns(ctx, tx, id, room.rows)
	if room.rows -= n; err != nil || room.spent() {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM conversations WHERE id = ?`, id); err != nil {
		return err
	}
	room.rows--
	return wordindex.ScheduleScrub(ctx, tx)
}

// nextToSweep returns the seq of the last message that there is room for.
func nextToSweep(ctx context.Context, tx *sql.Tx, id int64, room *sweepRoom) (last int64, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT seq, `+rows.MessageBytes+` FROM messages WHERE conversation_id = ? ORDER BY seq`, id)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for !room.spent() && rows.Next() {
		var bytes int64
		if err := rows.Scan(&last, &bytes); err != nil {
			return 0, err
		}
		room.rows--
		room.bytes -= bytes
	}
	return last, rows.Err()
}

// Sweep does at once what the store would otherwise do in the background, and
// returns when nothing of it is left: deleted words are gone from the disk then. An
// error of IsDamaged says that some could not be reached.
func (s *Store) Sweep(ctx context.Context) error {
	stuck, err := s.db.FinishChores(ctx)
	if err == nil {
		err = blobs.RemoveFiles(ctx, s.db)
	}
	if err != nil || len(stuck) == 0 && len(s.sweeps.left()) == 0 {
		return err
	}
	return fmt.Errorf("not everything that was deleted is gone from the disk: %w", db.Explain(db.ErrDamaged))
}

// sweeper deletes the rows of deleted conversations, but for those that damage keeps
// from being deleted.
type sweeper struct {
	mu      sync.Mutex
	unswept []int64 // conversations with damaged rows, left to the next start
}

// sweep is the function sweep for those conversations that can be swept.
func (w *sweeper) sweep(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	return sweep(ctx, tx, w.left())
}

func (w *sweeper) left() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unswept
}

// maxUnswept is how many conversations are passed over one by one.
const maxUnswept = 1000

// skip leaves the next conversation that would be swept to the next start.
func (w *sweeper) skip(ctx context.Context, s *db.Skipper) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, err := nextToDelete(ctx, s, w.unswept)
	if err == nil && len(w.unswept) == maxUnswept {
		err = fmt.Errorf("%w: rows of %d conversations can't be deleted", db.ErrStuck, maxUnswept)
	}
	if err != nil {
		return err
	}
	w.unswept = append(w.unswept, id)
	return nil
}
