package agentloop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/journal"
	"parley/conversation/steps"
	"parley/llm"
)

// A run that calls tools keeps a journal: the model's message with its calls is stored
// before the first of them begins, each result when it has come. When the process dies,
// the next one goes on from there. The commit of the run deletes the journal.

// maxDeaths is how many processes may die in one step of a run before it is given up.
const maxDeaths = 3

const (
	// outcomeUnknown is the result of a call that was under way when the process died.
	outcomeUnknown = "outcome unknown: the gateway stopped while this ran. It may have been done, in part or not at all; check before you do it again."
	// messageChanged is the result of a call that had not begun when the process died, where
	// the message was changed before the run went on.
	messageChanged = "not run: the gateway stopped before this call, and the message was changed since; ask again if it is still needed"
	// callInterrupted is the result of a call that was under way when a person ended its run.
	callInterrupted = "outcome unknown: a person stopped the answer while this ran. It may have been done, in part or not at all; check before you do it again."
	// callStopped is the result of a call that had not begun when its run was ended.
	callStopped = "not run: the run was ended before this call"
)

// unfinished is a run of the session that has a journal: one that another process has begun
// and not ended, or the one under way.
type unfinished struct {
	journal.Run
	found bool // there is such a run
	known bool // Run is what the store holds; otherwise it must be read before the run continues

	questions []approvals.Question // that the run has asked, as readQuestions has read them
}

// readUnfinished reads from the store which run of the session is unfinished. It tries again
// while the store fails, and returns false when ctx ends before it succeeds. A journal that
// is damaged is left alone: its run begins from the start.
func (l *loop) readUnfinished(ctx context.Context) bool {
	if l.unfinished.known {
		return true
	}
	err := l.persist(ctx, "read the journal", func() (err error) {
		l.unfinished.Run, l.unfinished.found, err = l.journal.Of(ctx, l.key, l.router.served...)
		return err
	})
	if conversation.IsDamaged(err) {
		l.deps.Log.Error("journal unreadable; the run begins from the start", "session", l.key, "error", err)
		l.unfinished.found, err = false, nil
	}
	l.unfinished.known = err == nil
	return err == nil
}

// took reports whether the unfinished run has taken a message.
func (u *unfinished) took(in conversation.Inbound) bool {
	return u.found && slices.ContainsFunc(u.Took, func(m journal.Message) bool { return m.ID == in.ID })
}

// takenOf returns those of a list of messages that the unfinished run has taken.
func (u *unfinished) takenOf(list []conversation.Inbound) (taken []conversation.Inbound) {
	for _, in := range list {
		if u.took(in) {
			taken = append(taken, in)
		}
	}
	return taken
}

// hasCalled reports whether the unfinished run has begun a call of a tool.
func (u *unfinished) hasCalled() bool {
	return slices.ContainsFunc(u.Rounds, func(r journal.Round) bool { return len(r.Begun)+len(r.Results) > 0 })
}

// changed reports whether messages that a run has taken were edited or withdrawn
// meanwhile.
func changed(run journal.Run, took []conversation.Inbound) bool {
	return !slices.Equal(run.Took, journalMessages(took))
}

func journalMessages(took []conversation.Inbound) []journal.Message {
	list := make([]journal.Message, len(took))
	for i, in := range took {
		list[i] = journal.Message{ID: in.ID, Revision: in.Revision}
	}
	return list
}

// nextToAnswer returns the waiting messages that the next run answers together. If a run is
// unfinished, these are the messages that it has taken.
func (l *loop) nextToAnswer(waiting []conversation.Inbound) []conversation.Inbound {
	if taken := l.unfinished.takenOf(waiting); len(l.unfinished.Rounds) > 0 && len(taken) > 0 {
		return taken
	}
	next := nextToAnswer(waiting)
	if l.apart && len(next) > 0 {
		first := next[0].Sender.ID
		next = slices.DeleteFunc(slices.Clone(next), func(in conversation.Inbound) bool { return in.Sender.ID != first })
	}
	return next
}

// settleWithdrawn commits what an unfinished run has done, if all of its messages were
// withdrawn before it could be resumed.
func (l *loop) settleWithdrawn(runs context.Context) bool {
	open, err := l.readQuestions(runs)
	if err != nil {
		return false
	}
	u, notRun := &l.unfinished, messageChanged
	if len(open) > 0 {
		notRun = callCancelled
		l.deps.Log.Info("approval cancelled", "session", l.key, "run", u.ID, "reason", "the message was withdrawn")
	}
	var snapshot conversation.Snapshot
	if err := l.persist(runs, "read the session", func() (err error) {
		snapshot.Conversation, err = l.deps.Store.Active(runs, l.key)
		return err
	}); err != nil {
		return false
	}
	var q question
	for _, m := range u.Took {
		q.took = append(q.took, conversation.Inbound{ID: m.ID, Key: l.key, Revision: m.Revision})
	}
	q.snapshot = snapshot
	run := l.agentRun(q, nil, l.doneBefore(u, notRun), u.StartedAt)
	run.Took, run.Status = q.took, conversation.StatusStopped
	l.cache.invalidate()
	return l.commit(runs, run)
}

// takeUp returns the journal of the run that answers a question, and how many processes have
// died during its current step. A run that has called no tool does not count them: nothing of
// it is stored, and messages that wait through many crashes must still be answered.
func (l *loop) takeUp(runs context.Context, q question) (run journal.Run, deaths int, err error) {
	last := q.destination()
	run = journal.Run{ID: q.took[0].ID, Key: l.key, Channel: last.Channel, Account: last.Account, Took: journalMessages(q.took), StartedAt: l.deps.Store.Now()}
	if !slices.ContainsFunc(q.took, l.unfinished.took) {
		return run, 0, nil
	}
	run = l.unfinished.Run
	err = l.persist(runs, "count the processes of a run", func() (err error) {
		deaths, err = l.journal.TakeUp(runs, run.ID)
		return err
	})
	if conversation.IsDamaged(err) {
		l.deps.Log.Error("journal not written", "session", l.key, "run", run.ID, "error", err)
		err = nil
	}
	l.unfinished.known = false
	return run, deaths, err
}

// suspend leaves a run unfinished at an orderly shutdown, so that the next process continues it.
func (l *loop) suspend(runs context.Context, run journal.Run) {
	if !l.unfinished.found {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(runs), shutdownWrite)
	defer cancel()
	if err := l.journal.Suspend(ctx, run.ID); err != nil {
		l.deps.Log.Warn("journal not updated at shutdown", "session", l.key, "run", run.ID, "error", err)
	}
}

// shutdownWrite bounds the last write of a run at shutdown.
const shutdownWrite = 2 * time.Second

// givenUpRun returns the failed run for a question during which process after process has
// died. It keeps the steps that were finished.
func (l *loop) givenUpRun(q question, run journal.Run, deaths int) conversation.Run {
	given := l.agentRun(q, q.took, l.doneBefore(&unfinished{Run: run, questions: l.unfinished.questions}, callStopped), run.StartedAt)
	given.Status, given.Effect = conversation.StatusFailed, conversation.Effect{Undo: q.undo}
	given.Error = fmt.Sprintf("given up: %d processes ended in the same step", deaths)
	l.deps.Log.Error("run given up", "session", l.key, "run", given.ID(), "deaths", deaths)
	given.Replies = l.unanswered(q.took, fmt.Sprintf("The gateway stopped %d times in a row while it worked on this, so it does not try again by itself (run %d).\n\n"+
		"Your message is kept; /retry tries again.", deaths, given.ID()))
	given.Replies[0].Actions = []conversation.Action{{Label: "Try again", Command: "/retry"}}
	return given
}

// doneBefore returns the finished steps of an unfinished run as an incomplete answer. Calls
// without a result get one that says so: notRun, if they had not begun.
func (l *loop) doneBefore(u *unfinished, notRun string) (a answer) {
	_ = a.replay(u.Rounds, u.questions, func(said window.Entry, round journal.Round) ([]window.Entry, error) {
		results := make([]window.Entry, len(said.ToolCalls))
		for i, call := range said.ToolCalls {
			if result, known := round.Results[call.ID]; known {
				results[i] = window.EntryOf(result.Message)
				continue
			}
			text := notRun
			q, _ := questionOf(u.questions, round, call)
			switch {
			case inputsOf(u.questions, round, call).waitsIn(l.router.process):
				text = callEndedAsking
			case round.Begun[call.ID]:
				text = outcomeUnknown
			case q.State == approvals.Denied, q.State == approvals.Expired:
				text = refusal(q, call)
			}
			results[i] = window.NewEntry(l.deps.Counter, llm.Message{Role: "tool", Name: call.Name, ToolCallID: call.ID, Content: text})
			results[i].Failed = true
		}
		return results, nil
	})
	return a
}

// replay adds the rounds of a journal to an answer: the messages of the model, what they have
// cost, and the results of their calls. It ends with the first error of resultsOf, whose results it adds as well. A run that a
// person has stopped has all rounds nevertheless.
func (a *answer) replay(rounds []journal.Round, questions []approvals.Question, resultsOf func(said window.Entry, round journal.Round) ([]window.Entry, error)) (err error) {
	for _, round := range rounds {
		said := window.EntryOf(round.Said)
		a.messages = append(a.messages, said)
		a.pictures += len(round.Said.Images)
		a.addRound(round, questions)
		var results []window.Entry
		results, err = resultsOf(said, round)
		a.messages = append(a.messages, results...)
		if err != nil && !errors.Is(err, errStopped) {
			return err
		}
	}
	return err
}

// addRound adds what a round of the journal has cost, and its steps: the model's calls, the
// questions about tool calls, and the tool calls that have ended.
func (a *answer) addRound(round journal.Round, questions []approvals.Question) {
	t := round.Totals
	a.model, a.rounds, a.prompt, a.cached, a.completion = t.Model, t.Calls, t.Prompt, t.Cached, t.Completion
	a.steps = append(a.steps, round.Steps...)
	a.steps = append(a.steps, approvalSteps(questions, round)...)
	for _, call := range round.Said.ToolCalls {
		if result, known := round.Results[call.ID]; known {
			a.steps = append(a.steps, result.Step)
		}
	}
}

// resume continues a run from its journal: it adds the finished rounds to the window and
// finishes the last one. It returns the number of rounds.
func (g *generation) resume(ctx context.Context) (int, error) {
	rounds, done := g.journal.Rounds, 0
	g.resuming = true
	defer func() { g.resuming = false }()
	err := g.answer.replay(rounds, g.questions, func(said window.Entry, round journal.Round) ([]window.Entry, error) {
		g.journaled = len(g.answer.steps)
		g.show(said, round)
		if done++; done == len(rounds) {
			g.resumed(round)
		}
		return g.resultsOf(ctx, said, round)
	})
	g.window.Add(g.answer.messages...)
	return len(rounds), err
}

// show publishes what the model thought before a round of the journal, and the calls that have ended.
func (g *generation) show(said window.Entry, round journal.Round) {
	if thought := round.Said.Reasoning; thought != "" {
		g.thought.Reset()
		g.thought.WriteString(thought)
		g.deps.Watcher.Thinking(g.loop.key, g.to, thought)
	}
	for _, call := range said.ToolCalls {
		if result, known := round.Results[call.ID]; known {
			g.deps.Watcher.Called(g.loop.key, ToolCall{ToolCall: call, Done: true, Took: result.Step.Took, Error: result.Step.Error})
		}
	}
}

// resumed prepares the run to continue in its last round.
func (g *generation) resumed(round journal.Round) {
	g.logAnswers(round)
	if g.died {
		g.answer.steps = append(g.answer.steps, steps.Step{Kind: steps.Resumed, At: g.deps.Store.Now()})
	}
	g.deps.Log.Info("run resumed", "session", g.loop.key, "run", g.number, "rounds", len(g.journal.Rounds), "results", len(round.Results))
}

// storeRound stores a message that asks for tools before the first call begins, and returns
// it as a round of the journal, and for the window.
func (g *generation) storeRound(ctx context.Context, said window.Entry) (journal.Round, window.Entry, error) {
	round := journal.Round{
		Said:   window.Rows([]window.Entry{said})[0],
		Totals: journal.Totals{Model: g.answer.model, Calls: g.answer.rounds, Prompt: g.answer.prompt, Cached: g.answer.cached, Completion: g.answer.completion},
		Steps:  slices.Clone(g.answer.steps[g.journaled:]),
		Begun:  map[string]bool{},

		Harmless: !slices.ContainsFunc(said.ToolCalls, func(c llm.ToolCall) bool { return !g.isHarmless(c) }),
	}
	for i, call := range said.ToolCalls {
		if i < g.deps.Config.MaxParallelTools && said.Finish == "" && !g.mustAsk(ctx, call) {
			round.Begun[call.ID] = true
		}
	}
	l := g.loop
	l.unfinished = unfinished{Run: g.journal, found: true}
	err := l.persist(ctx, "write the journal", func() (err error) {
		round.Said, err = l.journal.AddRound(ctx, g.journal, round, slices.Sorted(maps.Keys(round.Begun)))
		return err
	})
	g.journaled = len(g.answer.steps)
	return round, window.EntryOf(round.Said), err
}

// storeResult stores the result of a call, and returns it for the window. It also stores the
// result if the run was ended meanwhile, but not a failure, since the end of the run may be
// its cause.
func (g *generation) storeResult(ctx context.Context, result conversation.Message, step steps.Step, harmless bool) (window.Entry, error) {
	if ctx.Err() != nil {
		if result.Failed {
			return window.Entry{}, context.Cause(ctx)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), shutdownWrite)
		defer cancel()
	}
	err := g.loop.persist(ctx, "write the journal", func() (err error) {
		result, err = g.loop.journal.AddResult(ctx, g.journal, journal.Result{Message: result, Step: step, Harmless: harmless})
		return err
	})
	return g.seen(ctx, result), err
}
