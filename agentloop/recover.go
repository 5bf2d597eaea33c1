package agentloop

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"parley/conversation"
)

// guard is do, with a panic as an error: one chat's text must not end the
// gateway, now and at every start.
func recovered(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// guardedStep is step, with a panic as the failure of what waits first: it is
// settled, so that the next start does not meet it again.
func (l *loop) recoveredStep(intake, runs context.Context, snapshot conversation.Turn) (goOn bool) {
	err := recovered(func() error {
		goOn = l.step(intake, runs, snapshot)
		return nil
	})
	if err == nil {
		return goOn
	}
	l.known = false
	return l.commit(runs, l.panickedRun(snapshot, err))
}

// brokenRun settles the first thing that waits with as little work as can be:
// what would usually be done with it has panicked. A message is kept for /retry.
func (l *loop) panickedRun(snapshot conversation.Turn, err error) conversation.Run {
	in := snapshot.Waiting[0]
	run := l.newRun(snapshot, snapshot.Waiting[:1], time.Now())
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
