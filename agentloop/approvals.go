package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/agentloop/command"
	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/journal"
	"parley/conversation/steps"
	"parley/llm"
	"parley/tools"
)

// If a person must allow a tool call, the run stores the question, ends with errAsked and
// gives its slot back. The journal holds what the run has done so far. Once all of its questions are
// closed, the loop continues the run from the journal.

// errAsked ends a run that waits for an answer of a person.
var errAsked = errors.New("waiting for an approval")

// The results of calls that were not allowed.
const (
	callDenied    = "error: not run: the call was refused. Don't make it again unless you are asked to."
	callExpired   = "error: not run: not approved in time. Say so; don't make the call again unless you are asked to."
	callCancelled = "not run: the message was changed before anybody allowed this call; ask again if it is still needed"
	callDiffers   = "error: not run: another call of the same message has the same id; make one call after the other"
)

// mustAsk reports whether a person must allow a call first. Calls that fail anyway need no
// answer.
func (g *generation) mustAsk(ctx context.Context, call llm.ToolCall) bool {
	tool, known := g.setup.agent.Tools.Find(call.Name)
	if !known || strings.TrimSpace(call.Arguments) != "" && !json.Valid([]byte(call.Arguments)) || !g.deps.Approvals.MustAsk(tool) {
		return false
	}
	_, standing := g.allowedHere(ctx, call.Name)
	return !standing
}

// allowedHere reports whether a tool is allowed for the whole session, and returns its definition of that time.
func (g *generation) allowedHere(ctx context.Context, tool string) (definition string, is bool) {
	if !g.deps.Approvals.ApproveRemember {
		return "", false
	}
	if g.standing == nil {
		list, err := g.loop.approvals.Standing(ctx, g.loop.key)
		if err != nil {
			g.deps.Log.Warn("list of always allowed tools not read", "session", g.loop.key, "error", err)
			return "", false
		}
		g.standing = map[string]string{}
		for _, s := range list {
			g.standing[s.Tool] = s.Definition
		}
	}
	definition, is = g.standing[tool]
	return definition, is
}

// bound returns a context for a call that people have allowed, by a question or for the session. It is made only if its
// server describes the tool as it did then, even if it says by now that the tool changes nothing.
func (g *generation) bound(ctx context.Context, call llm.ToolCall, round journal.Round) context.Context {
	var allowed []string
	tool, _ := g.setup.agent.Tools.Find(call.Name)
	tool.ReadOnly, tool.Additive = false, false
	if definition, is := g.allowedHere(ctx, call.Name); is && g.deps.Approvals.MustAsk(tool) {
		allowed = append(allowed, definition)
	}
	for _, q := range g.questions {
		if asksAbout(q, call, round) && q.State == approvals.Allowed {
			allowed = append(allowed, q.Definition)
		}
	}
	if len(allowed) == 0 {
		return ctx
	}
	return tools.WithAllowed(ctx, allowed)
}

// askAgain returns the question about a call that was not made since its tool has changed.
func (g *generation) askAgain(ctx context.Context, call llm.ToolCall, changed *tools.ChangedError) ([]approvals.Call, error) {
	g.deps.Log.Warn("tool changed since it was allowed", "session", g.loop.key, "run", g.number, "tool", call.Name, "changes", changed.Changes)
	err := g.loop.persist(ctx, "write the journal", func() error { return g.loop.journal.AddUnmade(ctx, g.journal, call.ID) })
	return []approvals.Call{{ID: call.ID, Tool: call.Name, Arguments: call.Arguments, Definition: changed.Definition, Changes: changed.Changes}}, err
}

// asksAbout reports whether a question asks whether a call of a round may be made.
func asksAbout(q approvals.Question, call llm.ToolCall, round journal.Round) bool {
	return q.Form == nil && q.Round == round.Totals.Calls && q.CallID == call.ID
}

// questionOf returns the newest approval question about a call of a round, if there is one.
func questionOf(all []approvals.Question, round journal.Round, call llm.ToolCall) (q approvals.Question, asked bool) {
	for _, q := range slices.Backward(all) {
		if asksAbout(q, call, round) {
			return q, true
		}
	}
	return q, false
}

// refusal returns the result of a call that was not allowed, "" if its question was answered
// with yes.
func refusal(q approvals.Question, call llm.ToolCall) string {
	switch {
	case q.Tool != call.Name || q.Arguments != call.Arguments:
		return callDiffers
	case q.State == approvals.Denied:
		return callDenied
	case q.State == approvals.Expired:
		return callExpired
	case q.State == approvals.Cancelled:
		return callCancelled
	}
	return ""
}

// askApproval stores the questions about some calls of a round. It returns errAsked when
// they are stored.
func (g *generation) askApproval(ctx context.Context, round journal.Round, calls []approvals.Call) error {
	config := g.deps.Approvals
	asked := approvals.Asking{
		Run: g.journal.ID, Round: round.Totals.Calls, Askers: g.askers,
		Until: g.deps.Store.Now().Add(config.ApproveTimeout), Rememberable: config.ApproveRemember, Calls: calls,
	}
	var due []conversation.Delivery
	if err := g.loop.persist(ctx, "store the questions", func() (err error) {
		due, err = g.loop.approvals.Ask(ctx, asked)
		return err
	}); err != nil {
		return err
	}
	for _, call := range calls {
		g.deps.Log.Info("approval asked for", "session", g.loop.key, "run", g.number, "tool", call.Tool, "question_of_server", call.Form != nil, "timeout", config.ApproveTimeout)
	}
	g.loop.router.questions.add(g.loop.key)
	g.deps.Watcher.Asked(g.loop.key)
	g.deps.Deliver(due)
	return errAsked
}

// askersOf returns the senders of the messages that a run answers.
func askersOf(took []conversation.Inbound) []approvals.Person {
	var people []approvals.Person
	for _, in := range took {
		who := approvals.Person{Channel: in.Channel(), ID: in.Sender.ID}
		if who.ID != "" && !slices.Contains(people, who) {
			people = append(people, who)
		}
	}
	return people
}

// approvalStep returns a question as a step of its run.
func approvalStep(q approvals.Question) steps.Step {
	step := steps.Step{Kind: steps.Approval, Name: q.Tool, At: q.AskedAt, CallID: q.CallID, Answer: string(q.State), By: q.By}
	if q.State == approvals.Open { // the run ends before the answer
		step.Answer = string(approvals.Cancelled)
	} else {
		step.Took = q.AnsweredAt.Sub(q.AskedAt)
	}
	return step
}

// approvalSteps returns the questions of a round as steps.
func approvalSteps(all []approvals.Question, round journal.Round) []steps.Step {
	var list []steps.Step
	for _, q := range all {
		if q.Round == round.Totals.Calls {
			list = append(list, approvalStep(q))
		}
	}
	return list
}

// readQuestions reads the questions of the unfinished run, and returns the open ones.
func (l *loop) readQuestions(ctx context.Context) (open []approvals.Question, err error) {
	l.unfinished.questions = nil
	if !l.unfinished.found {
		return nil, nil
	}
	err = l.persist(ctx, "read the questions", func() (err error) {
		l.unfinished.questions, err = l.approvals.OfRun(ctx, l.unfinished.ID)
		return err
	})
	if conversation.IsDamaged(err) {
		l.deps.Log.Error("questions unreadable; they are asked again", "session", l.key, "error", err)
		err = nil
	}
	for _, q := range l.unfinished.questions {
		if q.State == approvals.Open {
			open = append(open, q)
		}
	}
	return open, err
}

// whileAsked serves a session whose run waits for an answer. Commands are carried out ahead
// of the messages that wait, since one of them is the answer. It reports whether something
// was done, so that the loop must look again.
func (l *loop) whileAsked(intake, runs context.Context, snapshot conversation.Snapshot, open []approvals.Question) bool {
	if !l.router.questions.has(l.key) { // another process has asked, and may be gone
		l.router.questions.add(l.key)
	}
	waiting := l.allWaiting(intake, snapshot)
	took := l.unfinished.takenOf(waiting)
	later := without(waiting, took)
	if changed(l.unfinished.Run, took) {
		l.deps.Log.Info("approval cancelled", "session", l.key, "run", l.unfinished.ID, "reason", "the message was changed")
		return l.persist(runs, "cancel the questions", func() error { return l.approvals.Cancel(runs, l.unfinished.ID) }) == nil
	}
	if lost, err := l.closeLost(runs, open); lost {
		return err == nil
	}
	if l.cancel.Load() == l.unfinished.ID {
		return l.endAsked(runs, snapshot, took, nil, open)
	}
	for i, in := range later {
		c, is := in.Command()
		if !is && i == 0 {
			c, is = plainAnswer(in, took, open)
		}
		if !is {
			continue
		}
		if known, found := command.Find(c.Name); isStop(in) || found && known.EndsRun {
			return l.endAsked(runs, snapshot, took, later[:i+1], open)
		}
		snapshot.Waiting = later[i:]
		return l.command(intake, runs, snapshot, c)
	}
	l.sayMessagesWait(runs, later, open)
	return false
}

// allWaiting returns all messages that wait in the session. The snapshot has only the first
// ones, and the answer may be behind them.
func (l *loop) allWaiting(ctx context.Context, snapshot conversation.Snapshot) []conversation.Inbound {
	if !snapshot.More {
		return snapshot.Waiting
	}
	const most = 10_000
	all, err := l.deps.Store.Inbox(ctx, l.key, most)
	if err != nil {
		l.deps.Log.Warn("waiting messages not read", "session", l.key, "error", err)
		return snapshot.Waiting
	}
	return slices.DeleteFunc(all, func(in conversation.Inbound) bool {
		return !l.router.serves(conversation.Account{Channel: in.Channel(), ID: in.Account})
	})
}

// plainAnswer returns the command that a text without one stands for, if it answers the open
// question. It counts only if nothing else can be meant: in a private chat, from the person who
// asked, as the first message after the only open question.
func plainAnswer(in conversation.Inbound, took []conversation.Inbound, open []approvals.Question) (c conversation.Command, is bool) {
	if in.Group || in.NeverCommand || len(in.Attachments) > 0 || len(open) != 1 || len(took) == 0 ||
		!sameOrigin(in, took[len(took)-1]) || in.At.Before(open[0].AskedAt.Truncate(time.Second)) { // platforms tell whole seconds
		return c, false
	}
	q := open[0]
	if !slices.Contains(q.Askers, approvals.Person{Channel: in.Channel(), ID: in.Sender.ID}) {
		return c, false
	}
	if q.Form != nil {
		if field, open := q.Next(); open {
			return conversation.Command{Name: "answer", Arguments: fmt.Sprintf("%d %d %s", q.ID, field, in.Text)}, true
		}
	}
	switch strings.ToLower(strings.Trim(in.Text, " \t\r\n.!")) {
	case "yes", "y":
		return conversation.Command{Name: "approve", Arguments: fmt.Sprint(q.ID)}, true
	case "no", "n":
		return conversation.Command{Name: "deny", Arguments: fmt.Sprint(q.ID)}, true
	}
	return c, false
}

// endAsked ends a run that waits for an answer, without calling the model again. until are the waiting
// messages up to the command that ends the run; none means that it was cancelled, or its conversation ended, from elsewhere. A
// /stop also settles texts before it.
func (l *loop) endAsked(runs context.Context, snapshot conversation.Snapshot, took, until []conversation.Inbound, open []approvals.Question) bool {
	run, ok := l.endedRun(runs, snapshot, took, until, open)
	return ok && l.commit(runs, run)
}

// endedRun returns the run that endAsked commits. ok is false if runs has ended before.
func (l *loop) endedRun(runs context.Context, snapshot conversation.Snapshot, took, until []conversation.Inbound, open []approvals.Question) (run conversation.Run, ok bool) {
	var q question
	snapshot.Waiting = took
	if err := l.persist(runs, "read the session", func() (err error) {
		q.snapshot, q.undo, err = l.router.replacing(runs, snapshot)
		return err
	}); err != nil {
		return run, false
	}
	took = asAsked(took)
	done := l.doneBefore(&l.unfinished, callStopped)
	if isRetry(took[0]) {
		if l.unfinished.hasCalled() && len(window.UserMessages(window.LastTurn(snapshot.History))) > 0 {
			q = l.retried(snapshot)
		} else { // the answer that it was to replace stays
			done.messages = nil
		}
	}
	settled, text := took, command.NoLongerAsked(open)
	isStopped := len(until) == 0 || isStop(until[len(until)-1])
	if isStopped {
		settled, text = slices.Concat(took, settledByStop(until)), stopped
	}
	l.deps.Log.Info("approval cancelled", "session", l.key, "run", l.unfinished.ID, "reason", "the run was ended")
	run = l.stoppedRun(q, settled, done, l.unfinished.StartedAt)
	if !isStopped {
		run.Replies = l.stoppedReplies(settled, text)
	}
	return run, true
}

// endAskingRun ends the run that waits for an answer, if there is one. It returns false if runs ends before.
func (l *loop) endAskingRun(runs context.Context) bool {
	run, found, ok := l.askingRun(runs)
	return ok && (!found || l.commit(runs, run))
}

// askingRun returns the run with which the run that waits for an answer is ended. found is false if none waits, and ok if
// runs ends before.
func (l *loop) askingRun(runs context.Context) (run conversation.Run, found, ok bool) {
	if !l.readUnfinished(runs) {
		return run, false, false
	}
	open, err := l.readQuestions(runs)
	if err != nil {
		return run, false, false
	}
	if len(open) == 0 {
		return run, false, true
	}
	snapshot, err := l.begin(runs)
	if err != nil {
		return run, false, false
	}
	took := l.unfinished.takenOf(l.allWaiting(runs, snapshot))
	if len(took) == 0 {
		return run, false, true // they were withdrawn, which ends the run
	}
	run, ok = l.endedRun(runs, snapshot, took, nil, open)
	return run, ok, ok
}

// sayMessagesWait tells the chat, once, that its new messages wait until the open questions are
// answered.
func (l *loop) sayMessagesWait(runs context.Context, later []conversation.Inbound, open []approvals.Question) {
	if len(later) == 0 || open[0].Reminded {
		return
	}
	var due []conversation.Delivery
	if err := l.persist(runs, "remind of the questions", func() (err error) {
		due, err = l.approvals.Remind(runs, l.unfinished.ID, command.StillAsking(open))
		return err
	}); err == nil {
		l.deps.Deliver(due)
	}
}

// diedInRound reports whether the last round of a run was left by a process that died. A round that
// only waits for an answer does not count: no call of it has begun and lacks its result.
func diedInRound(run journal.Run, deaths int, all []approvals.Question, process string) bool {
	if deaths > 1 || len(run.Rounds) == 0 {
		return true
	}
	last := run.Rounds[len(run.Rounds)-1]
	if len(approvalSteps(all, last)) == 0 {
		return true
	}
	for _, call := range window.EntryOf(last.Said).ToolCalls {
		if _, known := last.Results[call.ID]; last.Begun[call.ID] && !known && !inputsOf(all, last, call).waitsIn(process) {
			return true
		}
	}
	return false
}

// logAnswers logs the answers to the questions of a run that goes on.
func (g *generation) logAnswers(round journal.Round) {
	for _, step := range approvalSteps(g.questions, round) {
		g.deps.Log.Info("approval answered", "session", g.loop.key, "run", g.number, "tool", step.Name, "answer", step.Answer, "by", step.By, "waited", step.Took.Round(time.Second))
	}
}
