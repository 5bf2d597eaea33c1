package agentloop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/steps"
	"parley/llm"
	"parley/plaintext"
	"parley/tools"
)

// answer is what a run has got from the model.
type answer struct {
	messages   []window.Entry // tool rounds and the final text, in order
	partial    string         // text of the call that was stopped or failed
	model      string
	rounds     int
	prompt     int // tokens, as the server counted them
	cached     int // of prompt, from the server's cache
	completion int
	steps      []steps.Step
}

// question is what a run answers.
type question struct {
	snapshot conversation.Snapshot
	took     []conversation.Inbound // what the run settles, all of one origin; the reply goes to the address of the last
	asked    []conversation.Inbound // these, with albums as one message; none for messages that are stored already
	notes    []conversation.Inbound // edits of earlier messages, which the run settles, too
	users    []conversation.Message // the messages that the model is to answer
	ended    *conversation.Snapshot // of the conversation that is over and that this one follows; nil = it follows none
	hint     string                 // shown to the model with them; "" = none
	fetched  bool                   // fetchFiles was done
	problems []string               // of its files, for the user

	stored int   // how many of users, from the first on, are stored already: /retry answers them again
	again  int64 // seq of the last of these, 0 for none
	undo   int64 // seq from which on the run takes messages out of the talk, 0 for none: see Snapshot.Replacing

	window conversation.Window // of the calls; zero = none was made
}

// destination returns where the reply goes.
func (q *question) destination() conversation.Destination { return q.took[len(q.took)-1].Destination() }

// answerNew answers the waiting messages.
func (l *loop) answerNew(runs context.Context, snapshot conversation.Snapshot) bool {
	q := question{notes: snapshot.Notes}
	if err := l.persist(runs, "read the session", func() (err error) {
		q.snapshot, q.undo, err = l.router.replacing(runs, snapshot)
		return err
	}); err != nil {
		return false
	}
	if q.snapshot.Conversation.Succeeds() {
		q.ended = &snapshot
	}
	q.took = toldApart(q.snapshot.History, snapshot.Waiting)
	q.asked = asOne(q.took)
	q.users = slices.Concat(l.router.noteMessages(q.notes), l.router.userMessages(q.asked))
	return l.answer(runs, q)
}

// answer has the model answer a question, and commits the result.
func (l *loop) answer(runs context.Context, q question) bool {
	started := time.Now()
	working, end := context.WithCancel(runs) // ends after the commit
	defer end()
	l.deps.Log.Debug("run begun", "session", l.key, "run", q.took[0].ID, "conversation", q.snapshot.Conversation.ID, "messages", len(q.took))
	l.deps.Watcher.Working(working, l.key, q.took, q.destination())
	a, err := l.generate(runs, &q)
	switch {
	case err == nil:
		return l.commit(runs, l.doneRun(q, a, started))
	case runs.Err() != nil: // the gateway ends; the question stays in the inbox
		return false
	case errors.Is(err, errJoined): // all of it is still waiting
		return true
	case errors.Is(err, errStopped):
		return l.commitStopped(runs, q, a, started)
	}
	return l.commit(runs, l.failedRun(q, a, err, started))
}

// generate fetches the files of the question and calls the model until it has
// answered. A /stop ends it: it then returns errStopped with the answer so far. It
// returns errJoined where it has to begin again with more messages.
func (l *loop) generate(runs context.Context, q *question) (answer, error) {
	ctx, cancel := context.WithCancelCause(runs)
	defer cancel(nil)

	// The router calls this function. A goroutine that waits for l.stop would cost
	// every run a stack.
	stop := func() { cancel(errStopped) }
	l.cancel.Store(&stop)
	defer l.cancel.Store(nil)
	select {
	case <-l.stop: // it came before l.cancel was set
		stop()
	default:
	}
	g := &generation{loop: l, deps: l.deps, to: q.destination(), notice: l.router.expiryNotice(q.snapshot.Conversation), number: q.took[0].ID, conversation: q.snapshot.Conversation.ID, budget: l.router.budgets.Of(l.key, l.deps.Budget)}
	if q.again == 0 {
		g.join = &joining{began: time.Now(), took: q.took[len(q.took)-1], cancel: cancel}
		l.join.Store(g.join)
		defer l.join.Store(nil)
	}
	err := recovered(func() error {
		l.fetchFiles(ctx, q)
		release, err := l.reserveImages(ctx, q)
		if err != nil {
			return err
		}
		defer release()
		g.openWithSummary(ctx, q)
		snapshot, asked := l.withImages(ctx, *q)
		q.hint = l.router.hintFor(ctx, snapshot, asked, g.budget)
		if g.options, err = modelOptions(optionsOf(q.took)); err != nil {
			return err
		}
		asked = l.router.withOverheard(asked, q.asked)
		g.window = l.router.windowWithHint(instructed(snapshot, q.took), asked, q.hint)
		return g.run(tools.WithSession(ctx, tools.Session{Key: l.key, Conversation: q.snapshot.Conversation.ID, Window: g.budget}))
	})
	l.router.budgets.Used(l.key, g.budget, l.deps.Budget)
	q.window = g.window.Place()
	for _, cause := range []error{errStopped, errJoined} {
		if err != nil && errors.Is(context.Cause(ctx), cause) {
			err = cause
		}
	}
	return g.answer, err
}

// generation makes one answer.
type generation struct {
	loop    *loop
	deps    *Deps
	window  window.Window
	to      conversation.Destination
	notice  string       // stands before the text in previews
	budget  int          // shrinks when the model refuses a list as too long
	options *llm.Options // of the model's calls; nil = as configured
	join    *joining     // nil: the run does not begin again

	number       int64  // of the run
	conversation string // ID
	unsummarised int64  // seq before which a summary could not be made in this run; 0 = none
	answer       answer
	text         strings.Builder // of the call under way
}

// run calls the model and the tools it asks for, until it answers without tools.
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
		if g.join != nil && !g.join.start() {
			return errJoined
		}
		results, err := g.callTools(ctx, response.ToolCalls)
		if err != nil {
			return err
		}
		g.add(results...)
	}
}

func (g *generation) add(messages ...window.Entry) {
	g.answer.messages = append(g.answer.messages, messages...)
	g.window.Add(messages...)
}

// cutReason returns a model's finish reason if it says that the answer was cut off,
// else "".
func cutReason(reason string) steps.FinishReason {
	switch r := steps.FinishReason(reason); r {
	case steps.FinishLength, steps.FinishContentFilter:
		return r
	}
	return ""
}

// call makes one model call. While the model refuses the list as too long, it tries
// again with a smaller one. In the last call of a run the model must answer in words. The
// tools stay in it, since servers put them in front of all else: without them nothing
// would repeat the call before. A server that does not know or heed that is called again
// without tools.
func (g *generation) call(ctx context.Context, last bool) (llm.Response, error) {
	offered := g.deps.Config.MaxToolRounds > 0 && len(g.loop.router.frame.Tools) > 0
	for {
		sent := g.fit(ctx)
		if sent.Cramped {
			return llm.Response{}, g.noRoom(sent)
		}
		g.window.Sent(sent)
		g.deps.Log.Debug("window", "session", g.loop.key, "run", g.number, "messages", len(sent.Messages)-1, "tokens", sent.Tokens, "left_out", sent.Left, "budget", g.budget)
		request := llm.Request{Messages: sent.Messages, CacheKey: cacheKey(g.conversation), Options: g.options, Attempted: func(a llm.Attempt) {
			g.noteCall(modelStep(a, sent))
		}}
		if offered {
			request.Tools, request.InWords = g.loop.router.frame.Tools, last
		}
		g.text.Reset()
		response, err := g.deps.Model.Complete(ctx, request, g.preview)
		g.answer.rounds++
		g.answer.prompt += response.Usage.Prompt
		g.answer.cached += response.Usage.Cached
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
			g.deps.Log.Warn("list too long for the model; sending less", "session", g.loop.key, "budget", g.budget, "limit", failure.Limit)
			continue
		}
		if last && offered && (err == nil && response.Text == "" || failure != nil && failure.Kind == llm.KindRejected) {
			offered = false
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

// noteCall adds an attempt at a model call to the steps of the run.
func (g *generation) noteCall(step steps.Step) {
	g.answer.steps = append(g.answer.steps, step)
	logCall(g.deps.Log, g.loop.key, g.number, step)
}

// logCall logs an attempt at a model call.
func logCall(log *slog.Logger, key conversation.Key, run int64, step steps.Step) {
	log.Debug("model call", "session", key, "run", run, "purpose", cmp.Or(step.Purpose, "answer"), "model", step.Name, "took", step.Took,
		"prompt_tokens", step.Prompt, "cached_tokens", step.Cached, "completion_tokens", step.Completion, "error", step.Error)
}

// cacheKey returns what the calls of a conversation have in common for the model's
// server. It is made of the conversation's random ID, so that it tells nothing about
// people or places.
func cacheKey(conversation string) string {
	sum := sha256.Sum256([]byte("prompt cache of " + conversation))
	return hex.EncodeToString(sum[:16])
}

func (g *generation) preview(d llm.Delta) {
	if g.join != nil && d.Text != "" && !g.join.start() {
		return
	}
	if d.Reset {
		g.text.Reset()
	}
	g.text.WriteString(d.Text)
	g.deps.Watcher.Preview(g.loop.key, g.to, g.notice+g.text.String())
}

// maxStepError is how many characters of an error a step keeps. The log has all.
const maxStepError = 300

// modelStep returns an attempt at a model call as a step of the run.
func modelStep(a llm.Attempt, sent window.List) steps.Step {
	step := steps.Step{
		Kind:       steps.Model,
		Name:       a.Model,
		At:         a.At,
		Took:       a.Took,
		FirstByte:  a.FirstByte,
		Prompt:     a.Usage.Prompt,
		Cached:     a.Usage.Cached,
		Completion: a.Usage.Completion,
		Shown:      int64(len(sent.Messages)) - 1, // the first is the system prompt
		Left:       sent.Left,
		Window:     sent.Tokens,

		FinishReason: cutReason(a.FinishReason),
	}
	if a.Err != nil {
		step.Error = plaintext.ShortLine(a.Err.Error(), maxStepError)
	}
	return step
}
