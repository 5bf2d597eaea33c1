package agentloop

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"parley/conversation"
)

// ErrEnding says that the gateway ends, so that an operation was not made.
var ErrEnding = errors.New("the gateway is ending")

// task is something that somebody outside has a loop do.
type task struct {
	ctx     context.Context
	do      func(ctx context.Context) error
	claimed atomic.Bool // it is being done, or was given up: whoever sets it decides
	result  chan error
}

func (t *task) claim() bool { return t.claimed.CompareAndSwap(false, true) }

// Do has something done to a session that its loop must not work with meanwhile:
// to archive, delete or extend its conversation. It is done between two runs,
// with the session's lock, and the loop reads the session anew afterwards. Do
// returns what do did; a panic of do is an error. When ctx ends first, as during
// a long run or while another process works the session, nothing is done and the
// error wraps the cause of ctx; ErrEnding is for a gateway that ends. do must not
// call Do, and its context ends with ctx, or when the gateway can't wait longer.
func (r *Router) Exclusively(ctx context.Context, key conversation.Key, do func(ctx context.Context) error) error {
	t := &task{ctx: ctx, do: do, result: make(chan error, 1)}
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
	return <-t.result // it is being done
}

func (t *task) gaveUp(key conversation.Key) error {
	return fmt.Errorf("%s is at work: %w", key, context.Cause(t.ctx))
}

// doTasks does what waits to be done between two runs.
func (l *loop) runTasks(runs context.Context) {
	for _, t := range l.mail.takeTasks() {
		if !t.claim() {
			continue
		}
		if t.ctx.Err() != nil {
			t.result <- t.gaveUp(l.key)
			continue
		}
		ctx, cancel := context.WithCancel(t.ctx)
		stop := context.AfterFunc(runs, cancel)
		err := recovered(func() error { return t.do(ctx) })
		stop()
		cancel()
		l.known = false
		t.result <- err
	}
}
