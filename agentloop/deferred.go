package agentloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/agentloop/command"
	"parley/conversation"
	"parley/conversation/deferred"
	"parley/conversation/journal"
	"parley/llm"
)

// defers reports whether messages of the session wait where the model can't be called. Programs and the operator's terminal get
// the error at once.
func (l *loop) defers() bool {
	of := func(is func(conversation.Key) bool) bool { return is != nil && is(l.key) }
	return l.deps.GiveUpAfter > 0 && !of(l.deps.OfPrograms) && !of(l.deps.OfOperator)
}

// isExpired reports whether a message that waits since then has waited for long enough.
func (r *Router) isExpired(since time.Time) bool {
	return r.deps.GiveUpAfter > 0 && !since.IsZero() && r.deps.Store.Now().Sub(since) >= r.deps.GiveUpAfter
}

// asksModel reports whether the model answers a message. It also answers the commands /retry and /continue.
func asksModel(in conversation.Inbound) bool {
	c, is := in.Command()
	return !is || c.Name == "retry" || c.Name == "continue"
}

// givesUp returns why a model can't be called, if the messages that wait for it since then have waited for long enough.
func (r *Router) givesUp(model string, since time.Time) *llm.Error {
	if !r.isExpired(since) {
		return nil
	}
	return r.outages.cause(model)
}

// mustDefer reports whether the message that waits first may not be sent to the model now. A message that has waited for too long is
// given up instead while the model is down.
func (l *loop) mustDefer(snapshot conversation.Snapshot) bool {
	first := snapshot.Waiting[0]
	if l.apart || !l.defers() || !asksModel(first) || snapshot.Damaged || len(settledByStop(snapshot.Waiting)) > 0 {
		return false
	}
	if _, is := first.Command(); is && len(settledByStop(snapshot.Waiting[1:])) > 0 {
		return false
	}
	model := l.router.setup(snapshot).label()
	if l.router.givesUp(model, first.DeferredSince) != nil {
		return false
	}
	waits := !first.DeferredSince.IsZero() && (first.DeferredFor == model || first.DeferredFor == "")
	return l.router.outages.mustWait(model, l.key, waits, l.deps.Store.Now())
}

// whileDeferred serves a session whose messages wait for the model. Commands are carried out ahead of them. It reports whether
// something was done, so that the loop must look again.
func (l *loop) whileDeferred(intake, runs context.Context, snapshot conversation.Snapshot) bool {
	model := l.router.setup(snapshot).label()
	waiting := l.allWaiting(intake, snapshot)
	var fresh []conversation.Inbound
	for i, in := range waiting {
		c, is := in.Command()
		switch {
		case is && i > 0 && asksModel(in):
			run := l.newRun(snapshot, []conversation.Inbound{in}, l.deps.Store.Now())
			run.Kind, run.Status = conversation.KindCommand, conversation.StatusDone
			run.Replies = l.reply(run.Took, deferred.Words)
			return l.commit(runs, run)
		case is && !asksModel(in):
			if known, found := command.Find(c.Name); found && known.EndsRun && l.unfinished.found {
				return l.commit(runs, l.stoppedRun(question{snapshot: snapshot}, l.unfinished.takenOf(waiting), l.doneBefore(&l.unfinished, callStopped), l.unfinished.StartedAt))
			}
			snapshot.Waiting = waiting[i:]
			return l.command(intake, runs, snapshot, c)
		case in.DeferredSince.IsZero():
			fresh = append(fresh, in)
		}
	}
	if len(fresh) > 0 {
		kind := llm.KindUnavailable
		if cause := l.router.outages.cause(model); cause != nil {
			kind = cause.Kind
		}
		l.addDeferred(runs, fresh, model, l.deps.Store.Now(), kind)
	}
	return false
}

// addDeferred stores that messages wait for the model until a time, and tells the chat. The texts of reminders among them that have
// not waited yet are told at once.
func (l *loop) addDeferred(ctx context.Context, took []conversation.Inbound, model string, until time.Time, kind llm.Kind) error {
	w := deferred.Deferral{Key: l.key, Took: took, Model: model, Until: until, Notice: kind.WaitWords()}
	if texts := reminderTexts(slices.DeleteFunc(slices.Clone(took), func(in conversation.Inbound) bool { return !in.DeferredSince.IsZero() })); texts != "" {
		w.Notice, w.IsReminder = texts+w.Notice, true
	}
	var due []conversation.Delivery
	err := l.persist(ctx, "store that messages wait", func() (err error) {
		due, err = deferred.New(l.deps.Store).Add(ctx, w)
		return err
	})
	l.cache.invalidate()
	if err != nil {
		return err
	}
	l.deps.Log.Debug("messages deferred", "session", l.key, "model", w.Model, "messages", len(w.Took), "until", w.Until)
	l.deps.Watcher.Asked(l.key)
	if len(due) > 0 {
		l.deps.Deliver(due)
	}
	offer(l.router.outages.changed)
	return nil
}

// endDeferral stores that the messages of the session no longer wait for the model. It reports whether they are.
func (l *loop) endDeferral(ctx context.Context) bool {
	err := l.persist(ctx, "store that messages no longer wait for the model", func() error { return deferred.New(l.deps.Store).End(ctx, l.key) })
	l.cache.invalidate()
	return err == nil
}

// serversFault handles a run that has failed by a fault of the model's server: its messages wait, and the result is nil. Any other
// error, and one after which the messages do not wait, is the result.
func (l *loop) serversFault(runs context.Context, q *question, begun journal.Run, err error) error {
	var cause *llm.Error
	if !errors.As(err, &cause) || !cause.Kind.IsServers() {
		return err
	}
	model, waits, first := q.setup.label(), l.defers(), q.took[0]
	var until time.Time
	giveUp := l.router.givesUp(model, first.DeferredSince) != nil
	if !giveUp {
		until, giveUp = l.router.outages.failed(model, l.key, cause, waits, l.deps.Store.Now())
	}
	switch {
	case !waits:
		return err
	case l.router.isExpired(first.DeferredSince):
		given := *cause
		given.User = fmt.Sprintf("I could not reach the model for %s, and have given up.", llm.InWords(l.deps.GiveUpAfter))
		return &given
	case giveUp:
		return err
	case first.DeferredSince.IsZero() && l.router.outages.cause(model) == nil:
		l.deps.Log.Warn("run failed; its messages wait", "session", l.key, "run", first.ID, "error", err)
	}
	l.apart = false
	l.suspend(runs, begun)
	if l.addDeferred(runs, q.took, model, until, cause.Kind) != nil && runs.Err() == nil {
		return err
	}
	return nil
}
