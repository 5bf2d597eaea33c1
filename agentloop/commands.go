package agentloop

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"parley/agentloop/command"
	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/reminders"
)

// commandEnv returns what a command works with in a session.
func (r *Router) commandEnv(snapshot conversation.Snapshot) command.Env {
	s := r.setup(snapshot)
	models, agents := r.choices(s, snapshot.Waiting[0])
	return command.Env{
		Store:       r.deps.Store,
		Reminders:   reminders.New(r.deps.Store),
		Admins:      r.deps.Admins,
		Frame:       r.setups.frame(r.deps.Counter, s.agent),
		Counter:     r.deps.Counter,
		Model:       s.label(),
		UsualModel:  r.usualModel(snapshot),
		Models:      models,
		Agent:       s.agent.Name,
		Agents:      agents,
		Budget:      s.model.Budget,
		StateBudget: min(r.deps.StateBudget, s.model.Budget/4),
		Limits:      r.deps.Limits,
		Log:         r.deps.Log,
		Budgets:     r.usageOf(snapshot.Waiting[0]),

		Approvals:    r.deps.Approvals,
		FromOperator: func(in conversation.Inbound) bool { return r.deps.FromOperator != nil && r.deps.FromOperator(in) },
	}
}

// usualModel returns the name of the model that answers in a session if none is chosen for it.
func (r *Router) usualModel(snapshot conversation.Snapshot) string {
	snapshot.Conversation.Model = ""
	return r.setup(snapshot).label()
}

// command carries out the command that waits first and commits the result.
func (l *loop) command(intake, runs context.Context, snapshot conversation.Snapshot, c conversation.Command) bool {
	started, begun := l.deps.Store.Now(), l.unfinished.took(snapshot.Waiting[0])
	if begun && c.Name != "continue" && c.Name != "retry" {
		return l.endBegun(runs, snapshot, commandChanged)
	}
	var did command.Result
	err := recovered(func() (err error) {
		did, err = l.execute(runs, snapshot, c)
		return err
	})
	if err == nil && did.Retry {
		return l.retryLast(intake, runs, snapshot)
	}
	if err == nil && did.Continue {
		return l.continueLast(intake, runs, snapshot)
	}
	if err == nil && begun {
		return l.endBegun(runs, snapshot, did.Text)
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

// commandChanged is the reply to a /continue or /retry that was edited into another command while its run was unfinished.
const commandChanged = "⏹ Stopped, since you changed the command while I was at work. Send the new one as a message of its own."

// endBegun ends the unfinished run of a command that can't go on: the command was edited into another one, or its conversation is over. What
// the run has done is kept. text is the reply.
func (l *loop) endBegun(runs context.Context, snapshot conversation.Snapshot, text string) bool {
	q := question{snapshot: snapshot, took: snapshot.Waiting[:1]}
	run := l.stoppedRun(q, q.took, l.doneBefore(&l.unfinished, callStopped), l.unfinished.StartedAt)
	run.Replies = l.reply(q.took, text)
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
	return c.Run(ctx, l.router.commandEnv(snapshot), command.Request{Session: l.key, Snapshot: snapshot, Message: snapshot.Waiting[0], Arguments: sent.Arguments})
}

// continueLast has the model go on with its last answer. The command is stored as a message
// that asks for that.
func (l *loop) continueLast(intake, runs context.Context, snapshot conversation.Snapshot) bool {
	if ended := settledByStop(snapshot.Waiting[1:]); len(ended) > 0 {
		took, done := slices.Concat(snapshot.Waiting[:1], ended), l.doneUntilStop(snapshot.Waiting[0])
		if len(done.messages) > 0 {
			took = asAsked(took)
		}
		return l.commit(runs, l.stoppedRun(question{snapshot: snapshot}, took, done, l.deps.Store.Now()))
	}
	if len(l.awaitTurns(intake, snapshot.Waiting[:1])) == 0 {
		return intake.Err() == nil
	}
	if _, ok := l.takeSlot(intake); !ok {
		return intake.Err() == nil
	}
	defer func() { <-l.router.slots }()
	snapshot.Waiting = asAsked(snapshot.Waiting[:1])
	return l.answerNew(runs, snapshot)
}

// asAsked returns the messages of a run in which a /continue reads as the message that the model is sent.
func asAsked(took []conversation.Inbound) []conversation.Inbound {
	if c, is := took[0].Command(); !is || c.Name != "continue" {
		return took
	}
	took = slices.Clone(took)
	took[0].Text, took[0].NeverCommand = command.Continue, true
	return took
}

func isRetry(in conversation.Inbound) bool {
	c, is := in.Command()
	return is && c.Name == "retry"
}

// doneUntilStop returns what the unfinished run of a command has done, which a /stop keeps.
func (l *loop) doneUntilStop(in conversation.Inbound) answer {
	if !l.unfinished.took(in) {
		return answer{}
	}
	return l.doneBefore(&l.unfinished, callStopped)
}

// retried returns the question of a /retry, which waits first: the last messages.
func (l *loop) retried(snapshot conversation.Snapshot) question {
	last := window.LastTurn(snapshot.History)
	users := window.UserMessages(last)
	q := question{snapshot: snapshot, took: snapshot.Waiting[:1], notes: snapshot.Notes, setup: l.router.setup(snapshot), stored: len(users), again: users[len(users)-1].Seq}
	q.users = slices.Concat(users, l.router.noteMessages(snapshot.Notes))
	q.snapshot.History = snapshot.History[:len(snapshot.History)-len(last)]
	return q
}

// retryLast answers the last messages again. Their answer, if they have one, is
// replaced in the window and in /history, and stays in the archive. Messages that
// got none, as in an outage of the model, are one turn with those after them, so
// they are all answered together. The model is told of edits since then.
func (l *loop) retryLast(intake, runs context.Context, snapshot conversation.Snapshot) bool {
	q := l.retried(snapshot)
	if ended := settledByStop(snapshot.Waiting[1:]); len(ended) > 0 {
		took := slices.Concat(snapshot.Waiting[:1], ended)
		return l.commit(runs, l.stoppedRun(q, took, l.doneUntilStop(snapshot.Waiting[0]), l.deps.Store.Now()))
	}
	if len(l.awaitTurns(intake, snapshot.Waiting[:1])) == 0 {
		return intake.Err() == nil
	}
	if _, ok := l.takeSlot(intake); !ok {
		return intake.Err() == nil
	}
	defer func() { <-l.router.slots }()
	kept := q.snapshot
	if err := l.persist(runs, "read the session", func() (err error) {
		q.snapshot, err = l.router.shortened(runs, kept, q.users[0].Seq)
		return err
	}); err != nil {
		return false
	}
	return l.answer(runs, q)
}
