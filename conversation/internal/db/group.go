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

// committer commits writes in groups. The goroutine that has the turn commits all writes that
// wait at that moment in one transaction, with one sync of the disk: this lets two hundred chats
// commit durably at once. The committer has no goroutine of its own that must be woken, so a
// write that comes alone is committed at once.
type committer struct {
	queue    chan write
	lazy     chan write
	reads    atomic.Int32               // number of reads that have the turn or wait for it
	turn     chan struct{}              // full while a goroutine uses the connection and the fields of its owner
	transact func(group ...write) error // commits a group in one transaction
	written  func()                     // is called after a group, with the turn
	closed   bool                       // needs the turn
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
	check task   // fails if nothing may be stored; nil = it may
	parts []Part // those of one session in their order
	alone bool   // no other work is done in the same transaction at the same time
	ahead bool   // work that is alone goes on before its statements are carried out, as a postgres.Task can
	quick bool   // it may be lost when the machine fails, see DB.WriteQuickly
}

// alone returns work that may concern all sessions.
func alone(do task) work { return work{parts: []Part{{Do: do}}, alone: true} }

// inOrder does the work by itself.
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

// write is work that waits for its transaction.
type write struct {
	work
	result chan error
}

const (
	maxGroup = 256                  // writes that share a transaction
	maxDelay = 5 * time.Millisecond // that a lazy write waits for others
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

// await returns when a job is done. The goroutine that has the turn does it; if none has the
// turn, await takes it.
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

// wanted reports whether another goroutine waits for the turn. The caller has the turn.
func (c *committer) wanted() bool { return len(c.queue) > 0 || len(c.lazy) > 0 || c.reads.Load() > 0 }

// takeToRead waits for the turn of a read, until ctx ends. It fails if the committer is closed.
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

// commitQueued commits the writes that wait. Both queues hold at most maxGroup, so
// that the caller's own job is among them.
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

// drain moves the writes that wait in a queue into the group.
func drain(group []write, queue <-chan write) []write {
	for range len(queue) {
		group = append(group, <-queue)
	}
	return group
}

func (c *committer) commit(group []write) {
	err := c.transact(group...)
	if err == nil || len(group) == 1 || errors.Is(err, ErrMoved) {
		for _, job := range group {
			job.result <- err
		}
		return
	}
	for _, job := range group {
		job.result <- c.transact(job)
	}
}

// close commits the writes that wait, and calls leave, which closes the connection. Later writes fail.
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
