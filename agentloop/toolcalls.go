package agentloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// resultsOf returns the results of the calls that a message of the model asks for, in their
// order. Those that the journal does not have yet are called, up to MaxParallelTools at a
// time. How a call fails is its result, for the model to read. An error means that the run
// can't go on: ctx has ended, the journal can't be written, or a person must answer first. With
// errStopped, all calls have a result nevertheless, since the conversation keeps what was done.
func (g *generation) resultsOf(ctx context.Context, said window.Entry, round journal.Round) ([]window.Entry, error) {
	calls := said.ToolCalls
	if said.Finish != "" {
		return g.notRun(calls), nil
	}
	results := make([]window.Entry, len(calls))
	called := make([]steps.Step, len(calls))
	began := make([]bool, len(calls))
	var unasked []approvals.Call
	asked := make([][]approvals.Call, len(calls)) // by the servers of the calls
	stillAsked := false
	var alone error // of the only call, which needs no goroutine
	var running errgroup.Group
	running.SetLimit(g.deps.Config.MaxParallelTools)
	for i, call := range calls {
		known, isKnown := round.Results[call.ID]
		q, isAsked := questionOf(g.questions, round, call)
		in := inputsOf(g.questions, round, call)
		switch {
		case isKnown:
			results[i] = g.seen(ctx, known.Message)
		case i >= maxCalls:
			results[i] = g.failedCall(call, fmt.Sprintf("error: not run, because at most %d calls are taken at once; ask again for what is still needed", maxCalls))
		case g.resuming && g.changed && in.waitsIn(g.loop.router.process):
			results[i] = g.failedCall(call, callChangedAsking)
			g.deps.Tools.Forget(call.Name, g.callKey(round, call))
		case in.areOpen() && in.waitsIn(g.loop.router.process):
			stillAsked = true
		case g.resuming && round.Begun[call.ID] && !g.mayRepeat(call) && !in.waitsIn(g.loop.router.process):
			results[i] = g.failedCall(call, outcomeUnknown)
			unknown := ToolCall{ToolCall: call, Done: true, Error: "outcome unknown: the gateway stopped"}
			g.deps.Watcher.Called(g.loop.key, unknown)
			called[i] = toolStep(unknown, g.deps.Store.Now())
		case isAsked && refusal(q, call) != "":
			results[i] = g.failedCall(call, refusal(q, call))
		case g.resuming && g.changed:
			results[i] = g.failedCall(call, messageChanged)
		case !isAsked && len(in) == 0 && g.mustAsk(ctx, call) || isAsked && q.State == approvals.Open:
			unasked = append(unasked, approvals.Call{ID: call.ID, Tool: call.Name, Arguments: call.Arguments})
		default:
			run := func() (err error) {
				began[i] = ctx.Err() == nil
				results[i], called[i], asked[i], err = g.callTool(ctx, call, round)
				return err
			}
			if len(calls) > 1 {
				running.Go(run)
			} else {
				alone = run()
			}
		}
	}
	err := cmp.Or(alone, running.Wait())
	for _, step := range called {
		if step.Kind != "" {
			g.answer.steps = append(g.answer.steps, step)
		}
	}
	g.journaled = len(g.answer.steps)
	if cause := context.Cause(ctx); errors.Is(cause, errStopped) {
		return g.stoppedCalls(calls, results, began, round), cause
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if unasked = slices.Concat(unasked, slices.Concat(asked...)); err == nil && len(unasked) > 0 {
		err = g.askApproval(ctx, round, unasked)
	}
	if err == nil && stillAsked {
		err = errAsked
	}
	if err != nil {
		return nil, err
	}
	return results, nil
}

// stoppedCalls returns the results of calls during which a person has ended the run. Calls that have none are said not
// to have begun, or to have an unknown outcome.
func (g *generation) stoppedCalls(calls []llm.ToolCall, results []window.Entry, began []bool, round journal.Round) []window.Entry {
	for i, call := range calls {
		switch {
		case results[i].Role != "":
		case inputsOf(g.questions, round, call).waitsIn(g.loop.router.process):
			results[i] = g.failedCall(call, callEndedAsking)
		case began[i]:
			results[i] = g.failedCall(call, callInterrupted)
		default:
			results[i] = g.failedCall(call, callStopped)
		}
	}
	return results
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

// callTool makes a call and stores its result. It returns what the server of the tool asks
// people, if it does so first.
func (g *generation) callTool(ctx context.Context, call llm.ToolCall, round journal.Round) (_ window.Entry, _ steps.Step, asked []approvals.Call, err error) {
	if !round.Begun[call.ID] && !g.setup.agent.Tools.Repeatable(call.Name) {
		if err := g.loop.persist(ctx, "write the journal", func() error { return g.loop.journal.AddBegun(ctx, g.journal, call.ID) }); err != nil {
			return window.Entry{}, steps.Step{}, nil, err
		}
	}
	calling, err := g.withInput(tools.WithCallKey(ctx, g.callKey(round, call)), call, round)
	if err != nil {
		return window.Entry{}, steps.Step{}, nil, err
	}
	began := time.Now()
	g.deps.Watcher.Called(g.loop.key, ToolCall{ToolCall: call})
	returned, err := g.setup.agent.Tools.Call(calling, call.Name, call.Arguments, g.deps.Config.ToolTimeout)
	if asked := g.formsOf(err, call, round); asked != nil {
		return window.Entry{}, steps.Step{}, asked, nil
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
	step := toolStep(done, g.deps.Store.At(began))
	stored, err := g.storeResult(ctx, result, step, g.isHarmless(call))
	return stored, step, nil, err
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
