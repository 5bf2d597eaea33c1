package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mattn/go-sqlite3"
)

// Chores are what the writer does by and by, a moment after something was
// written, in steps so small that no write waits long.

const (
	choreDelay = time.Second            // after a write
	choreMost  = 150 * time.Millisecond // of steps in one transaction, while nobody here waits
	choreStep  = 25 * time.Millisecond  // between two transactions: another process may wait, and asks every 100 ms
	choreRetry = 5 * time.Second        // after a failure
)

// chore is one of them.
type chore struct {
	name string // of what it brings up to date, for the operator

	// step does a part. done says that nothing is left.
	step func(ctx context.Context, tx *sql.Tx) (done bool, err error)

	// pass goes past what step can't read because the file is damaged. errLeft says
	// that it can't either; then the chore, and those that need it, are left to the
	// next start. nil: it never can. The caller has the writer's turn.
	pass func(ctx context.Context, w *writer) error

	needs string // another chore, without which this one would do harm; "" = none
}

// choreList is done in the order in which the chores depend on each other.
type choreList struct {
	list    []chore
	left    map[string]bool // by name, those that are left to the next start
	unswept []int64         // deleted conversations with damaged rows
}

const indexName = "the search index"

func newChores() *choreList {
	c := &choreList{left: map[string]bool{}}
	c.list = []chore{
		{name: "the sums of runs", step: sumRuns, pass: passRuns},
		{name: indexName, step: index, pass: passMessages},
		{name: "what deleted conversations have left", step: c.sweep, pass: c.passConversation, needs: indexName},
		{name: "deleted words in the search index", step: scrub, needs: indexName},
		{name: "files that were read", step: dropUploads},
	}
	return c
}

// choreError is why a chore failed.
type choreError struct {
	chore *chore
	err   error
}

func (e *choreError) Error() string { return e.chore.name + ": " + e.err.Error() }
func (e *choreError) Unwrap() error { return e.err }

// step does a part of the first chore that has one: done says that none has. An
// error is a *choreError.
func (c *choreList) step(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	for i := range c.list {
		one := &c.list[i]
		if c.left[one.name] || c.left[one.needs] {
			continue
		}
		if done, err := one.step(ctx, tx); err != nil {
			return false, &choreError{one, err}
		} else if !done {
			return false, nil
		}
	}
	return true, nil
}

// sweep is the function sweep for those conversations that can be swept.
func (c *choreList) sweep(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	return sweepBut(ctx, tx, c.unswept)
}

// maxUnswept is how many conversations are passed over one by one.
const maxUnswept = 1000

// passConversation leaves the next conversation that would be swept to the next
// start.
func (c *choreList) passConversation(ctx context.Context, w *writer) error {
	id, err := nextToDelete(ctx, w.conn, c.unswept)
	if err == nil && len(c.unswept) == maxUnswept {
		err = fmt.Errorf("%w: rows of %d conversations can't be deleted", errLeft, maxUnswept)
	}
	if err != nil {
		return err
	}
	c.unswept = append(c.unswept, id)
	return nil
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
	next := w.doChores()
	if w.resting = next == 0; w.resting {
		_, _ = w.conn.ExecContext(context.Background(), "PRAGMA shrink_memory") // if not now, then next time
		return
	}
	w.timer.Reset(next)
}

// doChores does some steps in one transaction, which costs a fraction of one for
// each, and ends it as soon as somebody waits for the turn. It says when the next
// is due, 0 for none.
func (w *writer) doChores() (next time.Duration) {
	done := false
	err := w.transaction(write{do: func(ctx context.Context, tx *sql.Tx) (err error) {
		for end := time.Now().Add(choreMost); ; {
			if done, err = w.chores.step(ctx, tx); done || err != nil || w.wanted() || time.Now().After(end) {
				return err
			}
		}
	}})
	if errors.Is(err, ErrMoved) { // which is logged already
		return choreRetry
	}
	if IsDamaged(err) && w.passDamage(err) {
		return choreStep
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

// passDamage has the chore that failed go past what is damaged, so that it and
// the others go on. It reports false for an error that is not a chore's. The caller
// has the turn.
func (w *writer) passDamage(err error) bool {
	var failed *choreError
	if !errors.As(err, &failed) {
		return false
	}
	w.damages.met(failed.chore.name, failed.err)
	if pass := failed.chore.pass; pass != nil {
		err = pass(context.Background(), w)
		if err == nil || !IsDamaged(err) && !errors.Is(err, errLeft) {
			return true // it is tried again
		}
	}
	w.chores.left[failed.chore.name] = true
	w.log.Error("part of the database can't be brought up to date before the next start", "chore", failed.chore.name, "error", explain(err))
	return true
}

// SQLite commits no transaction that has met damage. So what goes past it reads
// outside of transactions, and writes what may fail in one of its own.

// passRows has add bring rows of a table up to date, with the cursor behind them,
// and leaves out those that it can't: add is called with ever fewer ids, at last
// with one. skipped is told of each that is left out, and of the first one behind
// which rows stand on damaged pages.
func (w *writer) passRows(ctx context.Context, table, cursor string, n int, add func(ctx context.Context, tx *sql.Tx, ids []int64) error, skipped func(id int64, err error) error) error {
	var after int64
	if err := w.conn.QueryRowContext(ctx, `SELECT CAST(value AS INTEGER) FROM cursors WHERE name = ?`, cursor).Scan(&after); err != nil {
		return err
	}
	ids, err := readableIDs(ctx, w.conn, table, after, n)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%w: nothing behind number %d of %s can be read", errLeft, after, table)
	}
	if err != nil {
		return err
	}
	return w.passIDs(ctx, cursor, ids, add, skipped)
}

func (w *writer) passIDs(ctx context.Context, cursor string, ids []int64, add func(ctx context.Context, tx *sql.Tx, ids []int64) error, skipped func(id int64, err error) error) error {
	last := ids[len(ids)-1]
	moved := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = ?`, last, cursor)
		return err
	}
	err := w.transaction(write{do: func(ctx context.Context, tx *sql.Tx) error {
		if err := add(ctx, tx, ids); err != nil {
			return err
		}
		return moved(ctx, tx)
	}})
	if !IsDamaged(err) {
		return err
	}
	if len(ids) == 1 {
		if err := skipped(last, err); err != nil {
			return err
		}
		return w.transaction(write{do: moved})
	}
	half := len(ids) / 2
	if err := w.passIDs(ctx, cursor, ids[:half], add, skipped); err != nil {
		return err
	}
	return w.passIDs(ctx, cursor, ids[half:], add, skipped)
}

// passDamageInTurn is passDamage for a caller that does not have the turn.
func (w *writer) passDamageInTurn(err error) bool {
	w.take()
	defer w.give()
	return !w.closed && w.passDamage(err)
}

// sweptAll returns an error of IsDamaged when a chore was left to the next start.
func (w *writer) sweptAll() error {
	w.take()
	defer w.give()
	if len(w.chores.left) == 0 && len(w.chores.unswept) == 0 {
		return nil
	}
	return fmt.Errorf("not everything that was deleted is gone from the disk: %w", explain(sqlite3.Error{Code: sqlite3.ErrCorrupt}))
}

// errLeft says that a chore can't go past what is damaged.
var errLeft = errors.New("left to the next start")

// finishChores does what is quickly done at the end, for a process that lives
// shorter than choreDelay. The rest is for the next start.
func (w *writer) finishChores() {
	for range 10 {
		if w.doChores() != choreStep {
			return
		}
	}
}
