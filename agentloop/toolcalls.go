package agentloop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/agentloop/window"
	"parley/conversation/steps"
	"parley/llm"
	"parley/plaintext"
)

// maxCalls is how many calls of one round are run. A working model asks for a
// handful at once.
const maxCalls = 32

// callTools runs the calls of one round, up to MaxParallelTools at a time, and
// returns their results in the order of the calls. How a call fails is its result,
// for the model to read. The only error is the end of ctx.
func (g *generation) callTools(ctx context.Context, calls []llm.ToolCall) ([]window.Entry, error) {
	results := make([]window.Entry, len(calls))
	steps := make([]steps.Step, min(len(calls), maxCalls))
	var running errgroup.Group
	running.SetLimit(g.deps.Config.MaxParallelTools)
	for i, call := range calls {
		if i >= maxCalls {
			results[i] = g.failedCall(call, fmt.Sprintf("error: not run, because at most %d calls are taken at once; ask again for what is still needed", maxCalls))
			continue
		}
		running.Go(func() error {
			results[i], steps[i] = g.callTool(ctx, call)
			return nil
		})
	}
	_ = running.Wait() // the functions return no errors
	g.answer.steps = append(g.answer.steps, steps...)
	return results, context.Cause(ctx)
}

func (g *generation) callTool(ctx context.Context, call llm.ToolCall) (window.Entry, steps.Step) {
	began := time.Now()
	g.deps.Watcher.Called(g.loop.key, ToolCall{ToolCall: call})
	text, err := g.deps.Tools.Call(ctx, call.Name, call.Arguments, g.deps.Config.ToolTimeout)
	if err != nil && ctx.Err() == nil {
		g.deps.Log.Warn("tool failed", "session", g.loop.key, "tool", call.Name, "error", err)
	}
	result := g.toolResult(call, text)
	result.Failed = err != nil
	done := ToolCall{ToolCall: call, Done: true, Took: time.Since(began), Error: plaintext.ShortLine(failureOf(result), maxStepError)}
	g.deps.Watcher.Called(g.loop.key, done)
	g.deps.Log.Debug("tool call", "session", g.loop.key, "run", g.number, "tool", call.Name, "took", done.Took, "failed", result.Failed)
	return result, toolStep(done, began)
}

// toolResult returns the message by which the model reads the result of a call.
func (g *generation) toolResult(call llm.ToolCall, text string) window.Entry {
	return window.NewEntry(g.deps.Counter, llm.Message{Role: "tool", Name: call.Name, ToolCallID: call.ID, Content: text})
}

// failedCall returns the result of a call that was not run.
func (g *generation) failedCall(call llm.ToolCall, text string) window.Entry {
	result := g.toolResult(call, text)
	result.Failed = true
	return result
}

// failureOf returns how a call failed, in one line, or "" when it did not.
func failureOf(result window.Entry) string {
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
