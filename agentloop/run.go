package agentloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/llm"
	"parley/tools"
)

// answer is what the model made of a turn.
type answer struct {
	messages   []window.Entry // tool rounds and the final answer, in order
	partial    string         // text that was being written when the run was stopped
	model      string
	rounds     int
	prompt     int // tokens, as the server counted them
	completion int
	steps      []conversation.Step
}

// question is what a run answers.
type question struct {
	snapshot conversation.Turn
	took     []conversation.Inbound // what the run settles, all of one place; the reply goes to the last one's address
	notes    []conversation.Inbound // edits of earlier messages, settled with it
	users    []conversation.Message // what the model is asked
	hint     string                 // what it was told beside it, "" for nothing

	stored int   // how many of users, from the first on, are stored already and answered again
	again  int64 // seq of the last of these, 0 for none
}

// destination is where the reply goes.
func (q *question) destination() conversation.Destination { return q.took[len(q.took)-1].Destination() }

// answerNew runs the model on the waiting messages.
func (l *loop) answerNew(runs context.Context, snapshot conversation.Turn) bool {
	q := question{snapshot: snapshot, took: snapshot.Waiting, notes: snapshot.Notes}
	q.users = slices.Concat(l.router.noteMessages(q.notes), l.router.userMessages(q.took))
	return l.answer(runs, q)
}

// answer runs the model on a question and commits what came of it.
func (l *loop) answer(runs context.Context, q question) bool {
	started := time.Now()
	shown, end := context.WithCancel(runs) // until what came of it is stored
	defer end()
	l.deps.Watcher.Working(shown, l.key, q.took, q.destination())
	a, err := l.generate(runs, &q)
	switch {
	case err == nil:
		return l.commit(runs, l.doneRun(q, a, started))
	case runs.Err() != nil: // the gateway ends; the question stays in the inbox
		return false
	case errors.Is(err, errStopped):
		return l.commitStopped(runs, q, a, started)
	}
	return l.commit(runs, l.failedRun(q, a, err, started))
}

// generate fetches the files of the question and calls the model until it has
// answered. It listens to /stop, which ends it with errStopped and what there is
// so far.
func (l *loop) generate(runs context.Context, q *question) (answer, error) {
	ctx, cancel := context.WithCancelCause(runs)
	defer cancel(nil)

	// A goroutine of its own would have to grow a new stack for every run.
	stop := func() { cancel(errStopped) }
	l.cancel.Store(&stop)
	defer l.cancel.Store(nil)
	select {
	case <-l.stop: // it came before it could be heard
		stop()
	default:
	}
	g := &generation{loop: l, deps: l.deps, to: q.destination(), opening: opening(q.snapshot.Conversation), budget: l.router.budgets.Of(l.key, l.deps.Budget)}
	err := recovered(func() error {
		release, err := l.reserveImages(ctx, q)
		if err != nil {
			return err
		}
		defer release()
		l.fetchFiles(ctx, q)
		snapshot, asked := l.withImages(ctx, *q)
		hint := l.router.hints.For(asked)
		g.window = l.router.windowWithHint(snapshot, asked, hint)
		q.hint = hint
		return g.run(tools.In(ctx, tools.Place{Key: l.key, Conversation: q.snapshot.Conversation.ID}))
	})
	l.router.budgets.Used(l.key, g.budget, l.deps.Budget)
	if err != nil && errors.Is(context.Cause(ctx), errStopped) {
		err = errStopped
	}
	return g.answer, err
}

// generation is one answer in the making.
type generation struct {
	loop    *loop
	deps    *Deps
	window  window.Window
	to      conversation.Destination
	opening string // stands before the text that is shown
	budget  int    // shrinks when the model takes less
	answer  answer
	text    strings.Builder // of the call under way
}

func (g *generation) run(ctx context.Context) error {
	for round := 0; ; round++ {
		last := round >= g.deps.Config.MaxToolRounds
		response, err := g.call(ctx, last)
		if err != nil {
			return err
		}
		said := window.NewEntry(g.deps.Counter, llm.Message{Role: "assistant", Content: response.Text, ToolCalls: response.ToolCalls})
		if said.Finish = cutReason(response.FinishReason); said.Finish != "" {
			g.deps.Log.Warn("answer cut off", "session", g.loop.key, "model", response.Model, "finish_reason", said.Finish,
				"completion_tokens", response.Usage.Completion, "tool_calls", len(response.ToolCalls))
		}
		g.add(said)
		if len(response.ToolCalls) == 0 {
			return nil
		}
		if said.Finish != "" {
			g.add(g.notRun(response.ToolCalls)...)
			continue
		}
		results, err := g.callTools(ctx, response.ToolCalls)
		if err != nil {
			return err
		}
		for _, result := range results {
			g.add(window.NewEntry(g.deps.Counter, result))
		}
	}
}

func (g *generation) add(messages ...window.Entry) {
	g.answer.messages = append(g.answer.messages, messages...)
	g.window.Add(messages...)
}

// cutReason is a model's finish reason, as far as it says that the answer is not
// whole.
func cutReason(reason string) conversation.FinishReason {
	switch r := conversation.FinishReason(reason); r {
	case conversation.FinishLength, conversation.FinishContentFilter:
		return r
	}
	return ""
}

// notRun are the results of calls that were cut off. Even one that can be read
// may not be what the model meant to ask for.
func (g *generation) notRun(calls []llm.ToolCall) []window.Entry {
	results := make([]window.Entry, len(calls))
	for i, call := range calls {
		results[i] = window.NewEntry(g.deps.Counter, llm.Message{Role: "tool", Name: call.Name, ToolCallID: call.ID, Content: "error: not run, because your answer was cut off " +
			"at the length limit before its tool calls were whole; ask again with shorter arguments, in several steps if need be"})
	}
	return results
}

// call makes one model call, and makes it again with a smaller window while
// the model says that the list is too long. The last call of a run offers no
// tools, so that it ends in words.
func (g *generation) call(ctx context.Context, last bool) (llm.Response, error) {
	for {
		sent := g.window.Fit(g.loop.router.calibration.Budget(g.budget))
		if sent.Cramped {
			return llm.Response{}, g.noRoom(sent)
		}
		request := llm.Request{Messages: sent.Messages, Attempted: func(a llm.Attempt) {
			g.answer.steps = append(g.answer.steps, modelStep(a, sent))
		}}
		if !last {
			request.Tools = g.loop.router.frame.Tools
		}
		g.text.Reset()
		response, err := g.deps.Model.Complete(ctx, request, g.preview)
		g.answer.rounds++
		g.answer.prompt += response.Usage.Prompt
		g.answer.completion += response.Usage.Completion
		g.answer.model = response.Model
		if !last && sent.Exact {
			g.loop.router.calibration.Learn(response.Model, sent.Tokens, response.Usage.Prompt)
		}
		var failure *llm.Error
		if errors.As(err, &failure) && failure.Kind == llm.KindContextSize {
			if !g.shrink(sent, failure.Limit) {
				return response, g.tooLong(failure, sent)
			}
			g.deps.Log.Warn("the model takes less than its context window says; sending less", "session", g.loop.key, "budget", g.budget, "limit", failure.Limit)
			continue
		}
		if err == nil && last && len(response.ToolCalls) > 0 {
			response.ToolCalls = nil
			if response.Text == "" {
				err = fmt.Errorf("the model asked for tools %d times and gave no answer", g.answer.rounds)
			}
		}
		if err != nil {
			g.answer.partial = response.Text
		}
		return response, err
	}
}

// shrink lowers the budget below what the server has refused, and reports false
// when no smaller list would make sense.
func (g *generation) shrink(refused window.List, limit int) (ok bool) {
	g.budget, ok = g.window.Shrink(g.budget, refused, limit, &g.loop.router.calibration)
	return ok
}

// tooLong is the failure of a run whose question is refused as too long, however
// little is sent with it.
func (g *generation) tooLong(failure *llm.Error, sent window.List) error {
	told := *failure
	told.Err = fmt.Errorf("%w; the last list had %d tokens, %d of them for the system prompt, the tools and the frame: "+
		"check context_window and max_output_tokens in [llm], and the limits of the server", failure.Err, sent.Tokens, g.window.Fixed())
	told.User = "The model's server refuses this message as too long, whatever is left out beside it. Please tell whoever runs this assistant."
	if question, found := g.window.Question(); found && question.Tokens > window.MinQuestion {
		length := utf8.RuneCountInString(question.Content)
		told.User = fmt.Sprintf("Your message is too long for the model: it has about %d characters, and even a part of about %d was refused. "+
			"Please shorten it, or send it in deps.", rounded(length), rounded(length*window.MinQuestion/question.Tokens))
	}
	return &told
}

// noRoom is the failure of a run whose question has no room in the budget.
func (g *generation) noRoom(sent window.List) error {
	return &llm.Error{
		Kind: llm.KindContextSize,
		User: "There is no room for your message beside what the assistant is always told. Please tell whoever runs this assistant.",
		Err: fmt.Errorf("of the %d tokens that may be sent, %d are for the system prompt, the tools and the frame: "+
			"raise conversation.max_tokens or llm.context_window, or offer fewer tools", g.loop.router.calibration.Budget(g.budget), g.window.Fixed()),
	}
}

// rounded is a number as people say it: of two digits, and zeros.
func rounded(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}

func (g *generation) preview(d llm.Delta) {
	if d.Reset {
		g.text.Reset()
	}
	g.text.WriteString(d.Text)
	g.deps.Watcher.Preview(g.loop.key, g.to, g.opening+g.text.String())
}

// maxCalls is how many calls of one round are run. Answers of ordinary models
// ask for a handful; a list of hundreds is a model gone astray.
const maxCalls = 32

// callTools runs the calls of one round, up to MaxParallelTools at the same
// time. Each gets a result, in the order of the calls: trouble is told to the
// model. Only the end of the run is an error.
func (g *generation) callTools(ctx context.Context, calls []llm.ToolCall) ([]llm.Message, error) {
	results := make([]llm.Message, len(calls))
	steps := make([]conversation.Step, min(len(calls), maxCalls))
	var running errgroup.Group
	running.SetLimit(g.deps.Config.MaxParallelTools)
	for i, call := range calls {
		results[i] = llm.Message{Role: "tool", Name: call.Name, ToolCallID: call.ID}
		if i >= maxCalls {
			results[i].Content = fmt.Sprintf("error: not run, because at most %d calls are taken at once; ask again for what is still needed", maxCalls)
			continue
		}
		running.Go(func() error {
			results[i].Content, steps[i] = g.callTool(ctx, call)
			return nil
		})
	}
	_ = running.Wait() // each call's error is in its result
	g.answer.steps = append(g.answer.steps, steps...)
	return results, context.Cause(ctx)
}

func (g *generation) callTool(ctx context.Context, call llm.ToolCall) (string, conversation.Step) {
	began := time.Now()
	g.deps.Watcher.Called(g.loop.key, ToolCall{ToolCall: call})
	text, err := g.deps.Tools.Call(ctx, call.Name, call.Arguments, g.deps.Config.ToolTimeout)
	if err != nil && ctx.Err() == nil {
		g.deps.Log.Warn("tool failed", "session", g.loop.key, "tool", call.Name, "error", err)
	}
	done := ToolCall{ToolCall: call, Done: true, Took: time.Since(began), Error: window.OneLine(failureOf(text), maxStepError)}
	g.deps.Watcher.Called(g.loop.key, done)
	return text, toolStep(done, began)
}
