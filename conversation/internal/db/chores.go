package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"parley/internal/clock"
)

// Chores are done by the writer in the background, a moment after something was
// written, in steps so small that no write waits long.

const (
	choreDelay = time.Second            // after a write
	choreMost  = 150 * time.Millisecond // of steps in one transaction, while nobody in this process waits
	choreStep  = 25 * time.Millisecond  // between two transactions: another process may wait, and asks every 100 ms
	choreRetry = 5 * time.Second        // after a failure
)

// Chore is a background task of the package that gives it to Open.
type Chore struct {
	// Name says what the chore brings up to date, for the operator.
	Name string

	// Step does a part. done says that nothing is left.
	Step func(ctx context.Context, tx *sql.Tx) (done bool, err error)

	// Skip gets past what Step can't read because the file is damaged. It fails with
	// ErrStuck when it can't either; then the chore, and those that need it, rest until
	// the next start. nil: it never can.
	Skip func(ctx context.Context, s *Skipper) error

	// Needs names another chore that must be done first: without it, this one would
	// do harm. "" = none.
	Needs string
}

// choreList holds the chores, each behind the one that it needs.
type choreList struct {
	list  []Chore
	stuck map[string]bool // by name, those that rest until the next start
}

func newChores(list []Chore) *choreList {
	c := &choreList{list: slices.Clone(list), stuck: map[string]bool{}}
	slices.SortStableFunc(c.list, func(a, b Chore) int { return cmp.Compare(c.depth(a), c.depth(b)) })
	return c
}

// depth returns how many chores must be done before one, each for the next.
func (c *choreList) depth(of Chore) (n int) {
	for i := 0; i < len(c.list) && of.Needs != ""; i++ {
		at := slices.IndexFunc(c.list, func(one Chore) bool { return one.Name == of.Needs })
		if at < 0 {
			return n
		}
		n, of = n+1, c.list[at]
	}
	return n
}

func (c *choreList) has(name string) bool {
	return slices.ContainsFunc(c.list, func(one Chore) bool { return one.Name == name })
}

// rests reports whether a chore is not to be done: it is stuck, or the one that it
// needs is, or is missing.
func (c *choreList) rests(one Chore) bool {
	return c.stuck[one.Name] || one.Needs != "" && (c.stuck[one.Needs] || !c.has(one.Needs))
}

// choreError is why a chore failed.
type choreError struct {
	chore Chore
	err   error
}

func (e *choreError) Error() string { return e.chore.Name + ": " + e.err.Error() }
func (e *choreError) Unwrap() error { return e.err }

// step does a part of the first chore that has one. done says that none has. An
// error is a *choreError.
func (c *choreList) step(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	for i := range c.list {
		one := &c.list[i]
		if c.rests(*one) {
			continue
		}
		if done, err := one.Step(ctx, tx); err != nil {
			return false, &choreError{*one, err}
		} else if !done {
			return false, nil
		}
	}
	return true, nil
}

// StepChore does a part of the first chore that has something to do. done says that
// none has.
func (d *DB) StepChore(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	return d.writer.chores.step(ctx, tx)
}

// FinishChores does the chores until nothing is left to do, and lets other writes go
// first. It returns the names of those that damage keeps from being done.
func (d *DB) FinishChores(ctx context.Context) (stuck []string, err error) {
	for {
		done := false
		err := d.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			done, err = d.StepChore(ctx, tx)
			return err
		})
		switch {
		case IsDamaged(err) && d.writer.passDamageInTurn(err):
		case err != nil:
			return nil, err
		case done:
			return d.writer.stuckChores(), nil
		}
		if err := Pause(ctx); err != nil {
			return nil, err
		}
	}
}

// Pause lets other writes go first, also those of other processes. A task that
// makes many writes calls it between them.
func Pause(ctx context.Context) error {
	return clock.Sleep(ctx, choreStep)
}

// maxCatchUp is the most steps of a chore that a query waits for: what was said a
// moment ago, but not an index that is built anew.
const maxCatchUp = 5

// CatchUp runs a few steps of a chore, for a query that needs what they bring up to
// date. The chore itself repeats what fails here, and reports it; the query finds what
// is there.
func (d *DB) CatchUp(ctx context.Context, step func(context.Context, *sql.Tx) (done bool, err error)) {
	for range maxCatchUp {
		done := false
		err := d.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
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
			w.log.Warn("what follows a write, such as the search index, can't be brought up to date; trying again", "wait", choreRetry, "error", Explain(err))
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
	w.damages.met(failed.chore.Name, failed.err)
	if skip := failed.chore.Skip; skip != nil {
		err = skip(context.Background(), &Skipper{w})
		if err == nil || !IsDamaged(err) && !errors.Is(err, ErrStuck) {
			return true // it is tried again
		}
	}
	w.chores.stuck[failed.chore.Name] = true
	w.log.Error("part of the database can't be brought up to date before the next start", "chore", failed.chore.Name, "error", Explain(err))
	return true
}

// passDamageInTurn is passDamage for a caller that does not have the turn.
func (w *writer) passDamageInTurn(err error) bool {
	w.take()
	defer w.give()
	return !w.closed && w.passDamage(err)
}

func (w *writer) stuckChores() []string {
	w.take()
	defer w.give()
	return slices.Sorted(maps.Keys(w.chores.stuck))
}

// ErrStuck says that a chore can't get past damage: it rests until the next start.
var ErrStuck = errors.New("left to the next start")

// finishChores does what is quickly done at the end, for a process that lives
// shorter than choreDelay. The rest is for the next start.
func (w *writer) finishChores() {
	for range 10 {
		if w.doChores() != choreStep {
			return
		}
	}
}
