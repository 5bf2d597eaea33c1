package agentloop

import (
	"context"
	"fmt"
	"runtime/debug"

	"parley/conversation"
)

// recovered calls do and returns a panic as an error: the content of one chat must not end
// the gateway, and again at every start.
func recovered(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	return do()
}

// panicError is a panic as an error, for the log.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// recoveredStep runs step. After a panic it settles what waits first as failed, so
// that it is not met again.
func (l *loop) recoveredStep(intake, runs context.Context, snapshot conversation.Snapshot) (goOn bool) {
	err := recovered(func() error {
		goOn = l.step(intake, runs, snapshot)
		return nil
	})
	if err == nil {
		return goOn
	}
	l.cache.invalidate()
	return l.commit(runs, l.panickedRun(snapshot, err))
}

// panickedRun returns the failed run for what waits first, with as little work as
// possible, since the usual work has panicked. A message is kept for /retry.
func (l *loop) panickedRun(snapshot conversation.Snapshot, err error) conversation.Run {
	in := snapshot.Waiting[0]
	run := l.newRun(snapshot, snapshot.Waiting[:1], l.deps.Store.Now())
	run.Status, run.Error = conversation.StatusFailed, err.Error()
	if _, is := in.Command(); is {
		run.Kind = conversation.KindCommand
	} else {
		m := conversation.Message{Role: conversation.RoleUser, Content: in.Text, SourceID: in.SourceID, At: in.At}
		m.Tokens = len(m.Content) // a token is at least a byte
		if in.Group {
			m.Sender = in.Sender
		}
		run.Messages = []conversation.Message{m}
	}
	l.deps.Log.Error("run failed", "session", l.key, "run", run.ID(), "error", err)
	run.Replies = l.reply(run.Took, fmt.Sprintf("Something went wrong (run %d).", run.ID()))
	return run
}
