package agentloop

import (
	"context"
	"errors"

	"parley/agentloop/command"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/journal"
	"parley/llm"
	"parley/tools"
)

// The server of a tool may ask people something in the middle of a call. Its question is
// stored and asked like a question about an approval. The call is then made again with the answers,
// or, if the server has kept it open, continued. A call that is kept open is lost when the process ends.

// The results of calls whose server waited for an answer when they were ended.
const (
	callEndedAsking   = "ended: the run was ended while the server waited for an answer of the user. It may have been done, in part or not at all."
	callChangedAsking = "ended: the message was changed while the server waited for an answer of the user. It may have been done, in part or not at all; ask again if it is still needed."
)

// inputs are the questions that the server asked at the last stop of a call.
type inputs []approvals.Question

// inputsOf returns what the server asked at the last stop of a call, nothing if it never did.
func inputsOf(all []approvals.Question, round journal.Round, call llm.ToolCall) (last inputs) {
	for _, q := range all {
		if q.Form == nil || q.Round != round.Totals.Calls || q.CallID != call.ID {
			continue
		}
		if len(last) > 0 && q.Stop > last[0].Stop {
			last = nil
		}
		last = append(last, q)
	}
	return last
}

// stop returns the number of the stop at which the questions were asked, 0 for none.
func (in inputs) stop() int {
	if len(in) == 0 {
		return 0
	}
	return in[0].Stop
}

// waitsIn reports whether a process can continue the call with these answers: the server has not
// received them yet, and no other process held the call open.
func (in inputs) waitsIn(process string) bool {
	return len(in) > 0 && !in[0].Delivered && !in[0].IsLost(process)
}

func (in inputs) isHeld() bool { return len(in) > 0 && in[0].Process != "" }

func (in inputs) areOpen() bool {
	for _, q := range in {
		if q.State == approvals.Open {
			return true
		}
	}
	return false
}

// given returns the answers in the form that is sent to the server.
func (in inputs) given() tools.Input {
	given := tools.Input{State: in[0].Form.State, Held: in.isHeld(), Answers: map[string]tools.InputAnswer{}}
	for _, q := range in {
		a := tools.InputAnswer{Action: tools.Cancel}
		switch q.State {
		case approvals.Allowed:
			a = tools.InputAnswer{Action: tools.Accept, Content: q.Answers}
		case approvals.Denied:
			a.Action = tools.Decline
		}
		given.Answers[q.Form.Request] = a
	}
	return given
}

// withInput returns a context for a call that goes on with the answers to its questions, once
// it is stored that the server is told them.
func (g *generation) withInput(ctx context.Context, call llm.ToolCall, round journal.Round) (context.Context, error) {
	in := inputsOf(g.questions, round, call)
	if len(in) == 0 || in.isHeld() && !in.waitsIn(g.loop.router.process) { // a call that may be repeated begins from the start
		return ctx, nil
	}
	err := g.loop.persist(ctx, "store that answers are used", func() error {
		return g.loop.approvals.Deliver(ctx, g.journal.ID, round.Totals.Calls, call.ID, in.stop())
	})
	return tools.WithInput(ctx, in.given()), err
}

// formsOf returns the questions of a call that needs input; nil if its error is another one.
func (g *generation) formsOf(err error, call llm.ToolCall, round journal.Round) (asked []approvals.Call) {
	var needs *tools.NeedsInput
	if !errors.As(err, &needs) {
		return nil
	}
	process := ""
	if needs.Held {
		process = g.loop.router.process
	}
	stop := inputsOf(g.questions, round, call).stop() + 1
	for i := range needs.Forms {
		asked = append(asked, approvals.Call{ID: call.ID, Tool: call.Name, Arguments: call.Arguments, Form: &needs.Forms[i], Stop: stop, Process: process})
	}
	return asked
}

// holdsCall reports whether a call of the session's run is held open for an answer. The loop
// then keeps the session, since no other process can go on with the call.
func (l *loop) holdsCall() bool {
	for _, q := range l.unfinished.questions {
		if l.unfinished.found && q.State == approvals.Open && q.Process == l.router.process {
			return true
		}
	}
	return false
}

// forgetHeld ends the calls that are held open for a run that is over.
func (l *loop) forgetHeld() {
	for _, q := range l.unfinished.questions {
		if q.Process != l.router.process || q.Process == "" || q.Delivered {
			continue
		}
		l.deps.Tools.Forget(q.Tool, callKey(l.unfinished.Run, q.Round, q.CallID))
	}
}

// closeLost closes the open questions whose calls were held open by a process that has ended.
// It reports whether there are any.
func (l *loop) closeLost(ctx context.Context, open []approvals.Question) (some bool, err error) {
	for _, q := range open {
		some = some || q.IsLost(l.router.process)
	}
	if !some {
		return false, nil
	}
	var due []conversation.Delivery
	err = l.persist(ctx, "close the questions", func() (err error) {
		_, due, err = l.approvals.Lose(ctx, l.unfinished.ID, l.router.process, command.LostQuestions)
		return err
	})
	if err == nil {
		l.deps.Log.Info("question of an MCP server closed", "session", l.key, "run", l.unfinished.ID, "reason", "the gateway was restarted")
		l.deps.Watcher.Asked(l.key)
		l.deps.Deliver(due)
	}
	return true, err
}
