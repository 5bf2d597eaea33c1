package conversation

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Chores are what the writer does by and by, a moment after something was
// written, in steps so small that no write waits long.

const (
	choreDelay = time.Second            // after a write
	choreMost  = 150 * time.Millisecond // of steps in one transaction, while nobody here waits
	choreStep  = 25 * time.Millisecond  // between two transactions: another process may wait, and asks every 100 ms
	choreRetry = 5 * time.Second        // after a failure
)

// chore does one step of the first chore that has one, in the order in which
// they depend on each other: done says that none has.
func chore(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	for _, step := range []func(context.Context, *sql.Tx) (bool, error){sumRuns, index, sweep, scrub, dropUploads} {
		if done, err := step(ctx, tx); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// maxCatchUp is how many steps of a chore a question waits for: what was said a
// moment ago, but not an index that is made anew.
const maxCatchUp = 5

// catchUp does a chore for a question that needs it done. What fails here is made
// again, and told, by the chore; the question finds what is there.
func (s *Store) catchUp(ctx context.Context, step func(context.Context, *sql.Tx) (done bool, err error)) {
	for range maxCatchUp {
		done := false
		err := s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			done, err = step(ctx, tx)
			return err
		})
		if done || err != nil {
			return
		}
	}
}

// doChore is called by the timer when a chore is due.
func (w *writer) doChore() {
	w.take()
	defer w.give()
	if w.closed {
		return
	}
	next := w.chore()
	if w.resting = next == 0; w.resting {
		_, _ = w.conn.ExecContext(context.Background(), "PRAGMA shrink_memory") // if not now, then next time
		return
	}
	w.chores.Reset(next)
}

// chore does some steps in one transaction, which costs a fraction of one for
// each, and ends it as soon as somebody waits for the turn. It says when the next
// is due, 0 for none.
func (w *writer) chore() (next time.Duration) {
	done := false
	err := w.transaction(write{do: func(ctx context.Context, tx *sql.Tx) (err error) {
		for end := time.Now().Add(choreMost); ; {
			if done, err = chore(ctx, tx); done || err != nil || w.wanted() || time.Now().After(end) {
				return err
			}
		}
	}})
	if errors.Is(err, ErrMoved) { // which is logged already
		return choreRetry
	}
	if failing := err != nil; failing != w.failing {
		w.failing = failing
		if failing {
			w.log.Warn("what follows a write, such as the search index, can't be brought up to date; trying again", "wait", choreRetry, "error", explain(err))
		} else {
			w.log.Info("what follows a write is brought up to date again")
		}
	}
	switch {
	case err != nil:
		return choreRetry
	case done:
		return 0
	}
	return choreStep
}

// finishChores does what is quickly done at the end, for a process that lives
// shorter than choreDelay. The rest is for the next start.
func (w *writer) finishChores() {
	for range 10 {
		if w.chore() != choreStep {
			return
		}
	}
}
