package db

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"parley/internal/clock"
)

// Chores are background tasks. They run shortly after a write, in steps so small that no write
// waits long.

const (
	choreDelay = time.Second           // from a write until the chores run
	choreMost  = 10 * time.Millisecond // after this time a transaction is committed; a write that waits ends it sooner
	choreStep  = 25 * time.Millisecond // the pause between two transactions, for other processes, which retry every 100 ms
	choreShare = 10                    // while this process writes, the pause of a patient chore is this many times as long as the transaction was
	choreRetry = 5 * time.Second       // from a failure until the next attempt
)

// Chore is a background task. The package to which it belongs passes it to Open.
type Chore struct {
	// Name is a noun phrase for the operator that says what the chore brings up to date: "the search index".
	Name string

	// Step does a part of the work in a transaction. done reports that no work is left: a chore that has work after each write
	// must report it in the same step, so that those after it run as well while messages arrive.
	Step func(ctx context.Context, tx Tx) (done bool, err error)

	// Skip skips rows that Step can't read because the file is damaged. If it fails with
	// ErrStuck, the chore and those that need it are not run until the next start.
	// nil = damage can't be skipped.
	Skip func(ctx context.Context, s *Skipper) error

	// Needs is the name of a chore that must be finished first; "" = none.
	Needs string

	// Patient says that the work can wait: while this process writes, it takes a tenth of the time.
	Patient bool
}

// choreList holds the chores, ordered so that each follows the one that it needs.
type choreList struct {
	list    []Chore
	stuck   map[string]bool // the names of the chores that are not run until the next start
	patient bool            // the chore that ran last is patient
}

func newChores(list []Chore) *choreList {
	c := &choreList{list: slices.Clone(list), stuck: map[string]bool{}}
	slices.SortStableFunc(c.list, func(a, b Chore) int { return cmp.Compare(c.depth(a), c.depth(b)) })
	return c
}

// depth returns the number of chores that must be finished before this one.
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

// isBlocked reports whether a chore is not run, because it or one that it needs is stuck or
// missing.
func (c *choreList) isBlocked(one Chore) bool {
	return c.stuck[one.Name] || one.Needs != "" && (c.stuck[one.Needs] || !c.has(one.Needs))
}

// choreError is the failure of a chore.
type choreError struct {
	chore Chore
	err   error
}

func (e *choreError) Error() string { return e.chore.Name + ": " + e.err.Error() }
func (e *choreError) Unwrap() error { return e.err }

// step runs a step of the first chore that has work. done reports that no chore has work. The
// error is a *choreError.
func (c *choreList) step(ctx context.Context, tx Tx) (done bool, err error) {
	for i := range c.list {
		one := &c.list[i]
		if c.isBlocked(*one) {
			continue
		}
		c.patient = one.Patient
		if done, err := one.Step(ctx, tx); err != nil {
			return false, &choreError{*one, err}
		} else if !done {
			return false, nil
		}
	}
	return true, nil
}

// ofChores returns work that runs chores. A chore need not wait for the result of each statement that returns no rows.
func ofChores(do task) work {
	what := alone(do)
	what.ahead = true
	return what
}

// StepChore runs a step of the first chore that has work. done reports that no chore has work.
func (d *DB) StepChore(ctx context.Context, tx Tx) (done bool, err error) {
	if _, err := d.chores.exclude(ctx, tx, true); err != nil {
		return false, err
	}
	return d.chores.list.step(ctx, tx)
}

// FinishChores runs the chores until no work is left. Other writes go first. It returns the
// names of chores that can't finish because of damage.
func (d *DB) FinishChores(ctx context.Context) (stuck []string, err error) {
	for {
		done := false
		err := d.Write(ctx, func(ctx context.Context, tx Tx) (err error) {
			for end := time.Now().Add(choreMost); ; {
				if done, err = d.StepChore(ctx, tx); done || err != nil || time.Now().After(end) {
					return err
				}
			}
		})
		switch {
		case IsDamaged(err) && d.chores.passDamageInTurn(err):
		case err != nil:
			return nil, err
		case done:
			return d.chores.stuck(), nil
		}
		if err := Pause(ctx); err != nil {
			return nil, err
		}
	}
}

// Pause waits a moment, so that other writes go first, also those of other processes. A task with
// many writes calls it between two of them.
func Pause(ctx context.Context) error {
	return clock.Sleep(ctx, choreStep)
}

// maxCatchUp is how many steps of a chore a query waits for, at most. They suffice for messages
// that were just stored, but not for rebuilding an index.
const maxCatchUp = 20

// CatchUp runs up to 20 steps of a chore before a query that needs its result. It ignores errors:
// the chore repeats the step later and reports them, and the query sees what was done before.
func (d *DB) CatchUp(ctx context.Context, step func(context.Context, Tx) (done bool, err error)) {
	for left := maxCatchUp; left > 0; {
		done := false
		what := ofChores(func(ctx context.Context, tx Tx) (err error) {
			if _, err = d.chores.exclude(ctx, tx, true); err != nil {
				return err
			}
			for end := time.Now().Add(choreMost); !done && err == nil && left > 0 && time.Now().Before(end); left-- {
				done, err = step(ctx, tx)
			}
			return err
		})
		what.check = d.engine.held(ctx)
		err := d.engine.write(ctx, "", what)
		if done || err != nil {
			return
		}
	}
}

// background runs the chores. It belongs to a committer; only the goroutine that has the committer's turn
// may use its fields.
type background struct {
	log    *slog.Logger
	list   *choreList
	skip   func(failed *choreError) error                                     // skips the rows that made a chore fail because of damage
	rested func()                                                             // called when no chore has work left
	lock   func(ctx context.Context, tx Tx, wait bool) (free bool, err error) // keeps other processes from running chores until tx ends; nil = no other process can run them
	again  time.Duration                                                      // when chores run again although this process has written nothing; 0 = never

	group   *committer
	resting bool        // no chore has work until the next write
	wrote   bool        // this process has written since the last transaction of the chores
	failing bool        // the last chore failed
	stopped bool        // StopChores was called
	timer   *time.Timer // calls run
}

// start begins to run the chores, with the turns of a committer.
func (b *background) start(group *committer) {
	b.group = group
	group.take()
	defer group.give()
	b.timer = time.AfterFunc(choreDelay, b.run)
}

// exclude keeps other processes from running chores until the transaction ends. If another process
// runs chores, exclude waits for it or, without wait, reports false.
func (b *background) exclude(ctx context.Context, tx Tx, wait bool) (free bool, err error) {
	if b.lock == nil {
		return true, nil
	}
	return b.lock(ctx, tx, wait)
}

// wake notes a write, and starts the timer if it is not running. The caller must have the turn.
func (b *background) wake() {
	b.wrote = true
	if b.resting {
		b.resting = false
		b.timer.Reset(choreDelay)
	}
}

// run runs the chores that have work. The timer calls it.
func (b *background) run() {
	b.group.take()
	defer b.group.give()
	if b.group.closed || b.stopped {
		return
	}
	next := b.runSteps()
	if b.resting = next == 0; b.resting {
		b.rested()
		next = b.again
	}
	if next > 0 {
		b.timer.Reset(next)
	}
}

// runSteps runs several steps in one transaction, which is cheaper than one for each, and
// ends as soon as a write waits for the turn. It returns when the next call is due; 0 = never.
func (b *background) runSteps() (next time.Duration) {
	done, began := false, time.Now()
	err := b.group.transact(write{work: ofChores(func(ctx context.Context, tx Tx) (err error) {
		if free, err := b.exclude(ctx, tx, false); err != nil || !free {
			done = !free // another process runs the chores
			return err
		}
		for {
			if done, err = b.list.step(ctx, tx); done || err != nil || b.group.wanted() || time.Since(began) > choreMost {
				return err
			}
		}
	})})
	if errors.Is(err, ErrMoved) { // logged elsewhere
		return choreRetry
	}
	if IsDamaged(err) && b.passDamage(err) {
		return choreStep
	}
	if failing := err != nil; failing != b.failing {
		b.failing = failing
		if failing {
			b.log.Warn("background tasks of the database failed, such as updating the search index; trying again", "wait", choreRetry, "error", Explain(err))
		} else {
			b.log.Info("background tasks of the database work again")
		}
	}
	switch {
	case err != nil:
		return choreRetry
	case done:
		return 0
	}
	return b.pause(time.Since(began))
}

// pause returns the pause after a transaction of the chores that took this long with its commit. While this process
// writes, patient chores take a tenth of the time, whatever a commit costs on this disk.
func (b *background) pause(took time.Duration) time.Duration {
	busy := b.wrote || b.group.wanted()
	b.wrote = false
	if busy && b.list.patient {
		return max(choreStep, choreShare*took)
	}
	return choreStep
}

// passDamage makes a failed chore skip damaged rows, so that it and the others continue. It
// reports false if the error is not that of a chore. The caller must have the turn.
func (b *background) passDamage(err error) bool {
	var failed *choreError
	if !errors.As(err, &failed) {
		return false
	}
	err = b.skip(failed)
	if err == nil || !IsDamaged(err) && !errors.Is(err, ErrStuck) {
		return true // the chore is tried again
	}
	b.list.stuck[failed.chore.Name] = true
	b.log.Error("background task of the database stopped until the next start", "chore", failed.chore.Name, "error", Explain(err))
	return true
}

// passDamageInTurn is passDamage for a caller that does not have the turn.
func (b *background) passDamageInTurn(err error) bool {
	b.group.take()
	defer b.group.give()
	return !b.group.closed && b.passDamage(err)
}

func (b *background) stuck() []string {
	b.group.take()
	defer b.group.give()
	return slices.Sorted(maps.Keys(b.list.stuck))
}

// ErrStuck says that a chore can't skip damaged rows, and is not run until the next start.
var ErrStuck = errors.New("stopped until the next start")

// finish runs a few steps when the database is closed, for processes that do not live as long as
// choreDelay. The rest of the work is done at the next start. The caller must have the turn.
func (b *background) finish() {
	b.timer.Stop()
	for range 10 {
		if next := b.runSteps(); next == 0 || next == choreRetry {
			return
		}
	}
}
