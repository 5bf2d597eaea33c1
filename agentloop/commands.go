package agentloop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"parley/agentloop/command"
	"parley/agentloop/window"
	"parley/conversation"
)

// commandEnv returns what the commands work with.
func (r *Router) commandEnv() command.Env {
	return command.Env{
		Store:       r.deps.Store,
		Admins:      r.deps.Admins,
		Frame:       r.frame,
		Counter:     r.deps.Counter,
		ModelName:   r.deps.Model.Model,
		Budget:      r.deps.Budget,
		StateBudget: min(r.deps.StateBudget, r.deps.Budget/4),
		Limits:      r.deps.Limits,
		Log:         r.deps.Log,
	}
}

// command carries out the command that waits first and commits the result.
func (l *loop) command(intake, runs context.Context, snapshot conversation.Snapshot, c conversation.Command) bool {
	started := time.Now()
	var did command.Result
	err := recovered(func() (err error) {
		did, err = l.execute(runs, snapshot, c)
		return err
	})
	if err == nil && did.Retry {
		return l.retryLast(intake, runs, snapshot)
	}
	run := l.newRun(snapshot, snapshot.Waiting[:1], started)
	run.Kind, run.Status, run.Effect = conversation.KindCommand, conversation.StatusDone, did.Effect
	if did.Record != "" {
		run.Messages, run.Events = l.internalRows(did.Record), did.Events
	}
	text := did.Text
	if err != nil {
		l.deps.Log.Error("command failed", "session", l.key, "command", c.Name, "run", run.ID(), "error", err)
		run.Status, run.Error = conversation.StatusFailed, err.Error()
		text = fmt.Sprintf("Something went wrong (run %d).", run.ID())
		if conversation.IsDamaged(err) {
			text = cmp.Or(did.Text, command.Unreadable)
		}
	}
	run.Replies = l.reply(snapshot.Waiting[:1], text)
	run.Replies[0].Actions, run.Replies[0].Transcript = did.Actions, did.File
	return l.commit(runs, run)
}

func (l *loop) execute(ctx context.Context, snapshot conversation.Snapshot, sent conversation.Command) (command.Result, error) {
	c, found := command.Find(sent.Name)
	switch {
	case !found:
		return command.Result{Text: command.Unknown(sent.Name)}, nil
	case c.ReadsTalk && snapshot.Damaged:
		return command.Result{Text: command.Unreadable}, nil
	}
	return c.Run(ctx, l.router.env, command.Request{Session: l.key, Snapshot: snapshot, Message: snapshot.Waiting[0], Arguments: sent.Arguments})
}

// retryLast answers the last messages again. Their answer, if they have one, is
// replaced in the window and in /history, and stays in the archive. Messages that
// got none, as in an outage of the model, are one turn with those after them, so
// they are all answered together. The model is told of edits since then.
func (l *loop) retryLast(intake, runs context.Context, snapshot conversation.Snapshot) bool {
	last := window.LastTurn(snapshot.History)
	users := window.UserMessages(last)
	q := question{snapshot: snapshot, took: snapshot.Waiting[:1], notes: snapshot.Notes, stored: len(users), again: users[len(users)-1].Seq}
	q.users = slices.Concat(users, l.router.noteMessages(snapshot.Notes))
	q.snapshot.History = snapshot.History[:len(snapshot.History)-len(last)]
	if n := settledByStop(snapshot.Waiting[1:]); n > 0 {
		return l.commit(runs, l.stoppedRun(q, snapshot.Waiting[:1+n], answer{}, time.Now()))
	}
	if _, ok := l.takeSlot(intake); !ok {
		return intake.Err() == nil
	}
	defer func() { <-l.router.slots }()
	kept := q.snapshot
	if err := l.persist(runs, "read the session", func() (err error) {
		q.snapshot, err = l.router.shortened(runs, kept, users[0].Seq)
		return err
	}); err != nil {
		return false
	}
	return l.answer(runs, q)
}
