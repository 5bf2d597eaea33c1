package agentloop

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"parley/conversation"
)

// ErrEnding is returned if a function was not called because the gateway ends.
var ErrEnding = errors.New("the gateway is ending")

// task is a function that a loop runs between two runs.
type task struct {
	ctx     context.Context
	do      func(ctx context.Context) error
	ends    bool        // a run that waits for the answer of a person is ended first
	told    bool        // the node that works the session knows of a task with ends; used by the mailbox alone
	claimed atomic.Bool // set by the loop when it starts the task, or by the caller when it gives up
	result  chan error
}

func (t *task) claim() bool { return t.claimed.CompareAndSwap(false, true) }

// Exclusively runs a function that changes a session, for example archives or
// deletes its conversation, while no run of the session is under way. It holds the
// session's lock, and the loop reads the session again afterwards. It returns the
// error of do; a panic is an error. The context of do ends with ctx, and when the
// gateway's end can't wait longer. do must not call Exclusively.
//
// When ctx ends before do has begun, as during a long run or while another process
// holds the session, do is not called and the error wraps the cause of ctx. When the
// gateway ends first, the error is ErrEnding.
func (r *Router) Exclusively(ctx context.Context, key conversation.Key, do func(ctx context.Context) error) error {
	return r.task(key, &task{ctx: ctx, do: do, result: make(chan error, 1)})
}

// ExclusivelyEnding is Exclusively for a function that ends the session's conversation. If a run waits for
// the answer of a person, it first ends that run, as /new does.
func (r *Router) ExclusivelyEnding(ctx context.Context, key conversation.Key, do func(ctx context.Context) error) error {
	return r.task(key, &task{ctx: ctx, do: do, ends: true, result: make(chan error, 1)})
}

// task has the loop of a session run a task, and returns its result.
func (r *Router) task(key conversation.Key, t *task) error {
	ctx := t.ctx
	select {
	case r.signals <- signal{key: key, task: t}:
	case <-r.done:
		return ErrEnding
	case <-ctx.Done():
		return t.gaveUp(key)
	}
	select {
	case err := <-t.result:
		return err
	case <-r.done:
		if t.claim() {
			return ErrEnding
		}
	case <-ctx.Done():
		if t.claim() {
			return t.gaveUp(key)
		}
	}
	return <-t.result // the loop has started it
}

func (t *task) gaveUp(key conversation.Key) error {
	return fmt.Errorf("%s is at work: %w", key, context.Cause(t.ctx))
}

// runTasks runs the tasks that wait.
func (l *loop) runTasks(runs context.Context) {
	for _, t := range l.mail.takeTasks() {
		if !t.claim() {
			continue
		}
		if t.ctx.Err() != nil {
			t.result <- t.gaveUp(l.key)
			continue
		}
		if t.ends && !l.endAskingRun(runs) {
			t.result <- ErrEnding
			continue
		}
		ctx, cancel := context.WithCancel(t.ctx)
		stop := context.AfterFunc(runs, cancel)
		err := recovered(func() error { return t.do(ctx) })
		stop()
		cancel()
		l.cache.invalidate()
		t.result <- err
	}
}
