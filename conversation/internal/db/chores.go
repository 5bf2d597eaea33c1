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
	choreDelay = time.Second            // after a write
	choreMost  = 150 * time.Millisecond // length of a transaction while no write of this process waits
	choreStep  = 25 * time.Millisecond  // pause between two transactions, for other processes, which retry every 100 ms
	choreRetry = 5 * time.Second        // after a failure
)

// Chore is a background task. The package to which it belongs passes it to Open.
type Chore struct {
	// Name says what the chore brings up to date, for the operator.
	Name string

	// Step does a part of the work. done reports that nothing is left.
	Step func(ctx context.Context, tx Tx) (done bool, err error)

	// Skip skips rows that Step can't read because the file is damaged. If it fails with
	// ErrStuck, the chore and those that need it are not run until the next start.
	// nil: damage can't be skipped.
	Skip func(ctx context.Context, s *Skipper) error

	// Needs is the name of a chore that must be finished first; "" = none.
	Needs string
}

// choreList holds the chores, ordered so that each follows the one that it needs.
type choreList struct {
	list  []Chore
	stuck map[string]bool // names of those that are not run until the next start
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

// step runs a step of the first chore that has work. done reports that none has. The error
// is a *choreError.
func (c *choreList) step(ctx context.Context, tx Tx) (done bool, err error) {
	for i := range c.list {
		one := &c.list[i]
		if c.isBlocked(*one) {
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

// ofChores returns work that runs chores. Their statements add rows that nothing else depends on, so they need not wait
// for the answer to each.
func ofChores(do task) work {
	what := alone(do)
	what.ahead = true
	return what
}

// StepChore runs a step of the first chore that has work. done reports that none has.
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
			done, err = d.StepChore(ctx, tx)
			return err
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

// Pause lets other writes go first, also those of other processes. A task with many writes
// calls it between two of them.
func Pause(ctx context.Context) error {
	return clock.Sleep(ctx, choreStep)
}

// maxCatchUp is how many steps of a chore a query waits for. They suffice for messages that
// were just stored, but not for rebuilding an index.
const maxCatchUp = 5

// CatchUp runs a few steps of a chore before a query that needs its result. It ignores errors:
// the chore itself repeats the step and reports them, and the query finds what is there.
func (d *DB) CatchUp(ctx context.Context, step func(context.Context, Tx) (done bool, err error)) {
	for range maxCatchUp {
		done := false
		what := ofChores(func(ctx context.Context, tx Tx) (err error) {
			if _, err = d.chores.exclude(ctx, tx, true); err == nil {
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

// background runs the chores. It belongs to a committer, whose turn its fields need.
type background struct {
	log    *slog.Logger
	list   *choreList
	skip   func(failed *choreError) error                                     // skips the rows that made a chore fail because of damage
	rested func()                                                             // is called when no chore has work left
	lock   func(ctx context.Context, tx Tx, wait bool) (free bool, err error) // keeps other processes from running chores until tx ends; nil = none can
	again  time.Duration                                                      // after which they run though nothing was written here; 0 = never

	group   *committer
	resting bool        // there are no chores until something is written
	failing bool        // the latest chore failed
	stopped bool        // by StopChores
	timer   *time.Timer // of the next chore
}

// start begins to run the chores with the turns of a committer.
func (b *background) start(group *committer) {
	b.group = group
	group.take()
	defer group.give()
	b.timer = time.AfterFunc(choreDelay, b.run)
}

// exclude keeps other processes from running chores until the transaction ends. With wait it waits
// for one that does; else it reports false.
func (b *background) exclude(ctx context.Context, tx Tx, wait bool) (free bool, err error) {
	if b.lock == nil {
		return true, nil
	}
	return b.lock(ctx, tx, wait)
}

// wake starts the timer if it is not running. The caller has the turn.
func (b *background) wake() {
	if b.resting {
		b.resting = false
		b.timer.Reset(choreDelay)
	}
}

// run is called by the timer when a chore is due.
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
	done := false
	err := b.group.transact(write{work: ofChores(func(ctx context.Context, tx Tx) (err error) {
		if free, err := b.exclude(ctx, tx, false); err != nil || !free {
			done = !free // another process runs them
			return err
		}
		for end := time.Now().Add(choreMost); ; {
			if done, err = b.list.step(ctx, tx); done || err != nil || b.group.wanted() || time.Now().After(end) {
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
			b.log.Warn("what follows a write, such as the search index, can't be brought up to date; trying again", "wait", choreRetry, "error", Explain(err))
		} else {
			b.log.Info("what follows a write is brought up to date again")
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

// passDamage makes a failed chore skip damaged rows, so that it and the others continue. It
// reports false for an error that is no chore's. The caller has the turn.
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
	b.log.Error("part of the database can't be brought up to date before the next start", "chore", failed.chore.Name, "error", Explain(err))
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
var ErrStuck = errors.New("left to the next start")

// finish runs short work when the database is closed, for processes that live shorter than
// choreDelay. The next start does the rest. The caller has the turn.
func (b *background) finish() {
	b.timer.Stop()
	for range 10 {
		if b.runSteps() != choreStep {
			return
		}
	}
}
