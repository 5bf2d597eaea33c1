// Package sweep deletes the rows of deleted conversations. A conversation is deleted in two
// steps: one transaction hides it, and then a chore deletes its rows in small transactions, so
// that no other write waits long. After a crash, the chore continues at the next start.
package sweep

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/wordindex"
)

const (
	maxRows  = 25        // the maximum number of rows that are deleted in one step
	maxBytes = 256 << 10 // the maximum number of bytes of their texts and files; the last message may exceed it
)

// Step deletes some rows of deleted conversations: messages first, and the conversation itself
// last. done reports that there were none. All messages must be in the index of words before,
// since a message that is added later can't be removed from it. Step skips the conversations
// except, which are ids of rows.
func Step(ctx context.Context, tx db.Tx, except []int64) (done bool, err error) {
	left := budget{rows: maxRows, bytes: maxBytes}
	for !left.spent() {
		id, err := nextDeleted(ctx, tx, except)
		if errors.Is(err, sql.ErrNoRows) {
			if left.rows == maxRows {
				return true, nil
			}
			break
		}
		if err == nil {
			err = sweepConversation(ctx, tx, id, &left)
		}
		if err != nil {
			return false, err
		}
	}
	return false, wordindex.Merge(ctx, tx)
}

// nextDeleted returns the lowest id of the deleted conversations, sql.ErrNoRows if there is none.
func nextDeleted(ctx context.Context, q db.Querier, except []int64) (id int64, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT id FROM conversations WHERE deleted = 1 AND staged = 0 AND id NOT IN (SELECT value FROM `+db.EachID("?")+` ids) ORDER BY id LIMIT 1`, db.IDs(except)).Scan(&id)
	return id, err
}

// budget is the number of rows and bytes that a transaction may still delete.
type budget struct{ rows, bytes int64 }

func (r *budget) spent() bool { return r.rows <= 0 || r.bytes <= 0 }

// sweepConversation deletes messages, then runs, then the conversation itself, within the
// budget.
func sweepConversation(ctx context.Context, tx db.Tx, id int64, left *budget) error {
	last, err := lastToSweep(ctx, tx, id, left)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM messages WHERE conversation_id = ? AND seq <= ?`, id, last); err != nil {
		return err
	}
	if err := wordindex.MessagesDeleted(ctx, tx); err != nil || left.spent() {
		return err
	}
	n, err := rows.ForgetRuns(ctx, tx, id, left.rows)
	if left.rows -= n; err != nil || left.spent() {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM conversations WHERE id = ?`, id); err != nil {
		return err
	}
	left.rows--
	return wordindex.ScheduleScrub(ctx, tx)
}

// lastToSweep returns the seq up to which messages are deleted in this step, and subtracts them
// from the budget.
func lastToSweep(ctx context.Context, tx db.Tx, id int64, left *budget) (last int64, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT seq, `+rows.MessageBytes+` FROM messages WHERE conversation_id = ? ORDER BY seq`, id)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for !left.spent() && rows.Next() {
		var bytes int64
		if err := rows.Scan(&last, &bytes); err != nil {
			return 0, err
		}
		left.rows--
		left.bytes -= bytes
	}
	return last, rows.Err()
}

// Sweeper makes the chore. It skips conversations with rows on damaged pages. The zero value is ready.
type Sweeper struct {
	mu      sync.Mutex
	skipped []int64 // the ids of conversations that are skipped until the next start
}

// Chore returns the chore that deletes the rows of deleted conversations.
func (w *Sweeper) Chore() db.Chore {
	return db.Chore{Name: "what deleted conversations have left", Step: w.step, Skip: w.skip, Needs: wordindex.ChoreName, Patient: true}
}

func (w *Sweeper) step(ctx context.Context, tx db.Tx) (done bool, err error) {
	return Step(ctx, tx, w.list())
}

func (w *Sweeper) list() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skipped
}

// HasSkipped reports whether rows could not be deleted because the database is damaged.
func (w *Sweeper) HasSkipped() bool { return len(w.list()) > 0 }

// maxSkipped is how many conversations the Sweeper skips until it gives up.
const maxSkipped = 1000

// skip skips the conversation that would be swept next. It fails with db.ErrStuck after maxSkipped.
func (w *Sweeper) skip(ctx context.Context, s *db.Skipper) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, err := nextDeleted(ctx, s, w.skipped)
	if err == nil && len(w.skipped) == maxSkipped {
		err = fmt.Errorf("%w: rows of %d conversations can't be deleted", db.ErrStuck, maxSkipped)
	}
	if err != nil {
		return err
	}
	w.skipped = append(w.skipped, id)
	return nil
}
