package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/journal"
	"parley/conversation/steps"
	"parley/llm"
	"parley/plaintext"
	"parley/tools"
)

// maxCalls is how many calls of one round are run. A working model asks for a
// handful at once.
const maxCalls = 32

// madeCall is what a call of a tool has led to so far.
type madeCall struct {
	began  bool
	result window.Entry     // empty while there is none
	step   steps.Step       // empty if the trace shows none
	asked  []approvals.Call // questions of the tool's server that people must answer before there is a result
}

// verdict is the decision about one call of a round.
type verdict int

const (
	isDone         verdict = iota // it has a result, which may say why it is not run
	isRun                         // it is run now
	isAsked                       // a person must allow it first
	waitsForAnswer                // it waits for the answer of a person
)

// resultsOf returns the results of the calls that a message of the model asks for, in their
// order. Those that the journal does not have yet are called. How a call fails is its result,
// for the model to read. An error means that the run can't go on: ctx has ended, the journal
// can't be written, or a person must answer first. With errStopped, all calls have a result
// nevertheless, since the conversation keeps what was done.
func (g *generation) resultsOf(ctx context.Context, said window.Entry, round journal.Round) ([]window.Entry, error) {
	calls := said.ToolCalls
	if said.Finish != "" {
		return g.notRun(calls), nil
	}
	made := make([]madeCall, len(calls))
	var run []int
	var unasked []approvals.Call
	stillAsked := false
	for i, call := range calls {
		var next verdict
		switch next, made[i] = g.judge(ctx, i, call, round); next {
		case isRun:
			run = append(run, i)
		case isAsked:
			tool, _ := g.setup.agent.Tools.Find(call.Name)
			unasked = append(unasked, approvals.Call{ID: call.ID, Tool: call.Name, Arguments: call.Arguments, Definition: tool.Definition})
		case waitsForAnswer:
			stillAsked = true
		}
	}
	err := g.makeCalls(ctx, calls, run, made, round)
	for _, m := range made {
		if m.step.Kind != "" {
			g.answer.steps = append(g.answer.steps, m.step)
		}
		unasked = append(unasked, m.asked...)
	}
	g.journaled = len(g.answer.steps)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil && len(unasked) > 0 {
		err = g.askApproval(ctx, round, unasked)
	}
	if err == nil && stillAsked {
		err = errAsked
	}
	if cause := context.Cause(ctx); errors.Is(cause, errStopped) { // also while the questions were stored
		g.settleStopped(calls, made, round)
		return resultsIn(made), cause
	}
	if err != nil {
		return nil, err
	}
	return resultsIn(made), nil
}

func resultsIn(made []madeCall) []window.Entry {
	results := make([]window.Entry, len(made))
	for i, m := range made {
		results[i] = m.result
	}
	return results
}

// judge decides what happens to one call of a round. It also returns the result of a call that is not made now.
func (g *generation) judge(ctx context.Context, index int, call llm.ToolCall, round journal.Round) (verdict, madeCall) {
	refused := func(text string) (verdict, madeCall) {
		return isDone, madeCall{result: g.failedCall(call, text)}
	}
	known, isKnown := round.Results[call.ID]
	q, hasQuestion := questionOf(g.questions, round, call)
	in := inputsOf(g.questions, round, call)
	waits := in.waitsIn(g.loop.router.process)
	switch {
	case isKnown:
		return isDone, madeCall{result: g.seen(ctx, known.Message)}
	case index >= maxCalls:
		return refused(fmt.Sprintf("error: not run, because at most %d calls are taken at once; ask again for what is still needed", maxCalls))
	case g.resuming && g.changed && waits:
		g.deps.Tools.Forget(call.Name, g.callKey(round, call))
		return refused(callChangedAsking)
	case in.areOpen() && waits:
		return waitsForAnswer, madeCall{}
	case g.resuming && round.Begun[call.ID] && !g.mayRepeat(call) && !waits:
		unknown := ToolCall{ToolCall: call, Done: true, Error: "outcome unknown: the gateway stopped"}
		g.deps.Watcher.Called(g.loop.key, unknown)
		return isDone, madeCall{result: g.failedCall(call, outcomeUnknown), step: toolStep(unknown, g.deps.Store.Now())}
	case hasQuestion && refusal(q, call) != "":
		return refused(refusal(q, call))
	case g.resuming && g.changed:
		return refused(messageChanged)
	case hasQuestion && q.State == approvals.Open:
		return waitsForAnswer, madeCall{}
	case !hasQuestion && len(in) == 0 && g.mustAsk(ctx, call):
		return isAsked, madeCall{}
	}
	return isRun, madeCall{}
}

// makeCalls makes the calls with some indexes, up to MaxParallelTools at a time.
func (g *generation) makeCalls(ctx context.Context, calls []llm.ToolCall, indexes []int, made []madeCall, round journal.Round) error {
	var running errgroup.Group
	running.SetLimit(g.deps.Config.MaxParallelTools)
	for _, i := range indexes {
		calling := g.bound(ctx, calls[i], round)
		run := func() (err error) {
			made[i], err = g.callTool(calling, calls[i], round)
			return err
		}
		if len(indexes) == 1 {
			return run() // needs no goroutine
		}
		running.Go(run)
	}
	return running.Wait()
}

// settleStopped gives each call without a result one, after a person has ended the run: the call has
// not begun, or its outcome is unknown.
func (g *generation) settleStopped(calls []llm.ToolCall, made []madeCall, round journal.Round) {
	for i, call := range calls {
		switch {
		case made[i].result.Role != "":
		case made[i].asked != nil: // its server may hold it open for the answer
			g.deps.Tools.Forget(call.Name, g.callKey(round, call))
			made[i].result = g.failedCall(call, callEndedAsking)
		case inputsOf(g.questions, round, call).waitsIn(g.loop.router.process):
			made[i].result = g.failedCall(call, callEndedAsking)
		case made[i].began, g.resuming && round.Begun[call.ID]:
			made[i].result = g.failedCall(call, callInterrupted)
		default:
			made[i].result = g.failedCall(call, callStopped)
		}
	}
}

// mayRepeat reports whether a call that was under way when the process died is made again.
func (g *generation) mayRepeat(call llm.ToolCall) bool {
	return !g.changed && g.setup.agent.Tools.Repeatable(call.Name)
}

// isHarmless reports whether a call may be made again without harm, and with another key: its tool only reads.
func (g *generation) isHarmless(call llm.ToolCall) bool {
	tool, known := g.setup.agent.Tools.Find(call.Name)
	return known && tool.ReadOnly && tool.Repeatable
}

// callTool makes a call and stores its result, unless the server of the tool asks people first.
func (g *generation) callTool(ctx context.Context, call llm.ToolCall, round journal.Round) (made madeCall, err error) {
	made.began = ctx.Err() == nil
	if !round.Begun[call.ID] && !g.setup.agent.Tools.Repeatable(call.Name) {
		if err := g.loop.persist(ctx, "write the journal", func() error { return g.loop.journal.AddBegun(ctx, g.journal, call.ID) }); err != nil {
			return made, err
		}
	}
	calling, err := g.withInput(tools.WithCallKey(ctx, g.callKey(round, call)), call, round)
	if err != nil {
		return made, err
	}
	began := time.Now()
	g.deps.Watcher.Called(g.loop.key, ToolCall{ToolCall: call})
	returned, err := g.setup.agent.Tools.Call(calling, call.Name, call.Arguments, g.deps.Config.ToolTimeout)
	if made.asked = g.formsOf(err, call, round); made.asked != nil {
		return made, nil
	}
	if changed := (*tools.ChangedError)(nil); errors.As(err, &changed) {
		if !g.resuming || !round.Begun[call.ID] {
			made.asked, err = g.askAgain(ctx, call, changed)
			return made, err
		}
		returned = tools.Result{Text: outcomeUnknown} // of the call that was under way; the changed tool repeats nothing
	}
	if err != nil && ctx.Err() == nil {
		g.deps.Log.Warn("tool failed", "session", g.loop.key, "tool", call.Name, "error", err)
	}
	result := g.toolResult(call, returned)
	result = g.withinLimits(ctx, result)
	if result.Failed = err != nil; returned.Whole != "" {
		result = g.withWhole(ctx, result, returned.Whole)
	}
	done := ToolCall{ToolCall: call, Done: true, Took: time.Since(began), Error: plaintext.ShortLine(failureOf(result), maxStepError)}
	g.deps.Watcher.Called(g.loop.key, done)
	g.deps.Log.Debug("tool call", "session", g.loop.key, "run", g.number, "tool", call.Name, "took", done.Took, "failed", result.Failed)
	made.step = toolStep(done, g.deps.Store.At(began))
	made.result, err = g.storeResult(ctx, result, made.step, g.isHarmless(call))
	return made, err
}

// callKey returns the idempotency key of a call. A call that is made again after a crash has
// the same one.
func (g *generation) callKey(round journal.Round, call llm.ToolCall) string {
	return callKey(g.journal, round.Totals.Calls, call.ID)
}

func callKey(run journal.Run, round int, call string) string {
	key := fmt.Sprintf("run %d, begun at %d, call %d of the model, %s", run.ID, run.StartedAt.UnixMilli(), round, call)
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(key)).String()
}

// toolResult returns the message by which the model reads the result of a call.
func (g *generation) toolResult(call llm.ToolCall, result tools.Result) conversation.Message {
	m := conversation.Message{Role: conversation.RoleTool, ToolName: call.Name, ToolCallID: call.ID, Content: result.Text, Images: result.Pictures}
	m.Tokens = g.loop.router.tokensOf(m)
	return m
}

// failedCall returns the result of a call that was not run.
func (g *generation) failedCall(call llm.ToolCall, text string) window.Entry {
	result := g.toolResult(call, tools.Result{Text: text})
	result.Failed = true
	return window.EntryOf(result)
}

// failureOf returns how a call failed, in one line, or "" when it did not.
func failureOf(result conversation.Message) string {
	if !result.Failed {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimPrefix(result.Content, "error: "), "\n")
	return line
}

// notRun returns the results of calls that were cut off. None is run: the part that
// arrived may mean something else than the whole.
func (g *generation) notRun(calls []llm.ToolCall) []window.Entry {
	results := make([]window.Entry, len(calls))
	for i, call := range calls {
		results[i] = g.failedCall(call, "error: not run, because your answer was cut off "+
			"at the length limit before its tool calls were whole; ask again with shorter arguments, in several steps if need be")
	}
	return results
}

func toolStep(call ToolCall, began time.Time) steps.Step {
	return steps.Step{
		Kind:   steps.Tool,
		Name:   call.Name,
		At:     began,
		Took:   call.Took,
		CallID: call.ID,
		Error:  call.Error,
	}
}

// onlyTools returns the error of a run whose model asks for tools to the end, and never
// answers.
func (g *generation) onlyTools() error {
	return &llm.Error{
		Kind: llm.KindOnlyTools,
		User: fmt.Sprintf("The model kept asking for tools (%d times) and never answered. Please ask in other words.", g.answer.rounds),
		Operator: fmt.Sprintf("the model %q asked for tools %d times and gave no answer; raise max_tool_rounds in [agent], or use another model",
			g.setup.label(), g.answer.rounds),
	}
}
