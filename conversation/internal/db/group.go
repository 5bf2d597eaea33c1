package db

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// committer commits writes in groups. The goroutine that has the turn commits all waiting
// writes in one transaction, with one sync of the disk, so that two hundred sessions can commit
// at the same time. The committer has no goroutine of its own, which would have to be woken, so
// a single write is committed at once.
type committer struct {
	queue    chan write
	lazy     chan write
	reads    atomic.Int32               // the number of reads that have the turn or wait for it
	turn     chan struct{}              // a lock, full while a goroutine has the turn: only that goroutine may use the connection
	transact func(group ...write) error // commits a group in one transaction
	written  func()                     // called after each group, with the turn
	stored   atomic.Pointer[time.Time]  // when the latest group was committed that waits for the disk; nil = none was
	closed   bool                       // used only with the turn
}

// task is work in a transaction.
type task = func(ctx context.Context, tx Tx) error

// Part is the part of a write that concerns one session.
type Part struct {
	Session string // its key; "" = none
	Do      func(ctx context.Context, tx Tx) error
}

// work is what a write does. It may run twice: when another write of the same
// transaction fails, each is repeated in a transaction of its own.
type work struct {
	check task   // fails if this process may not write, for example since it has lost a session; nil = it may
	parts []Part // executed in order for each session
	alone bool   // its statements must not be interleaved with those of other work
	ahead bool   // for work that is alone: see postgres.Task.Ahead
	quick bool   // a failure of the machine may lose it, see DB.WriteQuickly
}

// alone returns work that may concern all sessions, and is not interleaved with other work.
func alone(do task) work { return work{parts: []Part{{Do: do}}, alone: true} }

// inOrder calls all parts one after the other.
func (w work) inOrder(ctx context.Context, tx Tx) error {
	for _, part := range w.parts {
		if err := part.Do(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// session returns the session that all of the work concerns, "" if there are several or none.
func (w work) session() string {
	if len(w.parts) == 1 {
		return w.parts[0].Session
	}
	return ""
}

// write is queued work. result receives its result.
type write struct {
	work
	result chan error
}

const (
	maxGroup = 256                  // the capacity of each queue
	maxDelay = 5 * time.Millisecond // how long a lazy write waits for others
)

func newCommitter(transact func(group ...write) error, written func()) *committer {
	return &committer{
		queue:    make(chan write, maxGroup),
		lazy:     make(chan write, maxGroup),
		turn:     make(chan struct{}, 1),
		transact: transact,
		written:  written,
	}
}

// take waits for the turn; give ends it.
func (c *committer) take() { c.turn <- struct{}{} }
func (c *committer) give() { <-c.turn }

// write implements DB.Write.
func (c *committer) write(ctx context.Context, what work) error {
	job, err := enqueue(ctx, c.queue, what)
	if err != nil {
		return err
	}
	return c.await(job)
}

// writeLazily implements DB.WriteLazily.
func (c *committer) writeLazily(ctx context.Context, what work) error {
	job, err := enqueue(ctx, c.lazy, what)
	if err != nil {
		return err
	}
	delay := time.NewTimer(maxDelay)
	defer delay.Stop()
	select {
	case err := <-job.result:
		return outcome(err)
	case <-delay.C:
		return c.await(job)
	}
}

func enqueue(ctx context.Context, queue chan<- write, what work) (write, error) {
	what.parts = slices.Clone(what.parts)
	for i := range what.parts {
		what.parts[i].Do = withoutPanic(what.parts[i].Do)
	}
	job := write{work: what, result: make(chan error, 1)}
	if err := ctx.Err(); err != nil {
		return job, err
	}
	select {
	case queue <- job:
		return job, nil
	case <-ctx.Done():
		return job, ctx.Err()
	}
}

// panicError is a panic in a write. The transaction is rolled back, as after other errors; then the goroutine that asked for the
// write panics, and not the one that has the turn.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("panic in a transaction: %v\n%s", e.value, e.stack)
}

// withoutPanic returns a task that returns a panic as a *panicError.
func withoutPanic(do task) task {
	return func(ctx context.Context, tx Tx) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = &panicError{cause, debug.Stack()}
			}
		}()
		return do(ctx, tx)
	}
}

// outcome returns the error of a write for its caller. It panics if the write did.
func outcome(err error) error {
	if cause := (*panicError)(nil); errors.As(err, &cause) {
		panic(cause)
	}
	return Explain(err)
}

// await waits until a job is committed, and returns its result. If no goroutine has the turn, await
// takes it and commits the queued writes.
func (c *committer) await(job write) error {
	select {
	case err := <-job.result:
		return outcome(err)
	case c.turn <- struct{}{}:
	}
	c.commitQueued()
	c.give()
	return outcome(<-job.result)
}

// wanted reports whether a write or a read waits for the turn. The caller must have the turn.
func (c *committer) wanted() bool { return len(c.queue) > 0 || len(c.lazy) > 0 || c.reads.Load() > 0 }

// takeToRead waits for the turn, for a read. It fails if ctx ends or the committer is closed.
func (c *committer) takeToRead(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.reads.Add(1)
	defer c.reads.Add(-1)
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.closed {
		c.give()
		return ErrClosed
	}
	return nil
}

// commitQueued commits all queued writes, among them the caller's own.
func (c *committer) commitQueued() {
	group := drain(drain(nil, c.queue), c.lazy)
	if len(group) == 0 {
		return
	}
	if c.closed {
		for _, job := range group {
			job.result <- ErrClosed
		}
		return
	}
	c.commit(group)
	c.written()
}

// drain moves the writes of a queue to the group.
func drain(group []write, queue <-chan write) []write {
	for range len(queue) {
		group = append(group, <-queue)
	}
	return group
}

// commit commits a group and sends the results. If the transaction fails, it repeats each write in a
// transaction of its own.
func (c *committer) commit(group []write) {
	err := c.transactNoting(group...)
	if err == nil || len(group) == 1 || errors.Is(err, ErrMoved) {
		for _, job := range group {
			job.result <- err
		}
		return
	}
	for _, job := range group {
		job.result <- c.transactNoting(job)
	}
}

// transactNoting calls transact, and notes when writes that wait for the disk were committed.
func (c *committer) transactNoting(group ...write) error {
	err := c.transact(group...)
	if err == nil && slices.ContainsFunc(group, func(w write) bool { return !w.quick }) {
		now := time.Now()
		c.stored.Store(&now)
	}
	return err
}

// hasStoredSince reports whether a group was committed since a time.
func (c *committer) hasStoredSince(t time.Time) bool {
	latest := c.stored.Load()
	return latest != nil && latest.After(t)
}

// close commits the queued writes and calls leave, which closes the connection. Later writes fail with ErrClosed.
func (c *committer) close(leave func() error) error {
	c.take()
	defer c.give()
	if c.closed {
		return nil
	}
	c.commitQueued()
	err := leave()
	c.closed = true
	return err
}
