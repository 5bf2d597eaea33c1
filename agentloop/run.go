package agentloop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/budgets"
	"parley/conversation/journal"
	"parley/conversation/state"
	"parley/conversation/steps"
	"parley/llm"
	"parley/plaintext"
	"parley/tools"
)

// answer is what a run has got from the model.
type answer struct {
	messages   []window.Entry // tool rounds and the final text, in order
	pictures   int            // number of pictures that the model has made
	partial    string         // text of the call that was stopped or failed
	thought    string         // what the model thought before partial
	model      string
	fallback   *llm.Fallback // why another model than that of the run has answered; nil = it has not
	rounds     int
	prompt     int // tokens, as the server counted them
	cached     int // tokens of prompt that came from the server's cache
	completion int
	steps      []steps.Step
	warnings   []string // for the user, about budgets
}

// count counts a model call, and notes which model was heard.
func (a *answer) count(response llm.Response) {
	a.rounds++
	a.model, a.fallback = response.Model, response.Fallback
}

// question is what a run answers.
type question struct {
	snapshot conversation.Snapshot
	took     []conversation.Inbound // the inbound that the run settles, all of one origin; the reply goes to the address of the last
	asked    []conversation.Inbound // took, with each album as one message; empty for messages that are stored already
	notes    []conversation.Inbound // edits of earlier messages, which the run settles, too
	users    []conversation.Message // the messages that the model is to answer
	ended    *conversation.Snapshot // snapshot of the expired conversation that this one follows; nil = there is none
	setup    setup                  // the model and the agent that answer
	hint     string                 // shown to the model with the messages; "" = none
	fetched  bool                   // fetchFiles has run
	problems []string               // with the files of the messages, in words for the user
	charged  []conversation.Share   // for whom the calls are made
	leftOut  []string               // whose messages are not all shown to the model, in words for the user
	calls    []steps.Step           // model calls that were made to read the files

	stored int   // how many of users, from the first on, are stored already: /retry answers them again
	again  int64 // seq of the last of these, 0 for none
	undo   int64 // seq from which on the run takes messages out of the talk, 0 for none: see Snapshot.Replacing

	once bool // the run tries whether a model that is down is back: each call is made once

	window conversation.Window // where the window of the newest call begins; zero = no call was made
	told   state.Told          // the lasting part of the note in the newest call; it is stored with the last of users
}

// destination returns where the reply goes.
func (q *question) destination() conversation.Destination {
	to := q.took[len(q.took)-1].Destination()
	to.Run = q.took[0].ID
	return to
}

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
	q.setup = l.router.setup(snapshot)
	q.took = withDistinctNames(q.snapshot.History, snapshot.Waiting)
	q.asked, q.leftOut = leaveOut(asOne(q.took))
	q.users = slices.Concat(l.router.noteMessages(q.notes), l.router.userMessages(q.asked))
	return l.answer(runs, q)
}

// answer has the model answer a question, and commits the result.
func (l *loop) answer(runs context.Context, q question) bool {
	if !l.readUnfinished(runs) {
		return false
	}
	begun, deaths, err := l.takeUp(runs, q)
	switch {
	case err != nil:
		return false
	case deaths >= maxDeaths:
		return l.commit(runs, l.givenUpRun(q, begun, deaths))
	}
	started := begun.StartedAt
	working, end := context.WithCancel(runs) // ends after the commit
	defer end()
	l.deps.Log.Debug("run begun", "session", l.key, "run", q.took[0].ID, "conversation", q.snapshot.Conversation.ID, "messages", len(q.took))
	l.deps.Watcher.Working(working, l.key, q.took, q.destination())
	var endTrial func()
	q.once, endTrial = l.router.outages.begin(q.setup.label(), l.key)
	defer endTrial() // after the commit
	a, err := l.generate(runs, &q, begun, diedInRound(begun, deaths, l.unfinished.questions, l.router.process))
	switch {
	case err == nil:
		return l.commit(runs, l.doneRun(q, a, started), q.calls...)
	case runs.Err() != nil: // the gateway ends; the question stays in the inbox
		l.suspend(runs, begun)
		return false
	case errors.Is(err, errJoined), errors.Is(err, errAsked): // all of it is still waiting
		return true
	case errors.Is(err, errWithdrawn): // what its tools have done is settled next
		l.deps.Log.Info("run ended", "session", l.key, "run", q.took[0].ID, "reason", "the message was withdrawn")
		return true
	case q.isOneOverBudget(err) && len(a.messages)+len(begun.Rounds) == 0:
		l.apart = true // the others are not to pay for it, nor to go without an answer
		return true
	case errors.Is(err, errCancelled):
		return l.commit(runs, l.stoppedRun(q, q.took, a, started), q.calls...)
	case errors.Is(err, errStopped):
		return l.commitStopped(runs, q, a, started)
	}
	if err = l.serversFault(runs, &q, begun, err); err == nil {
		return false
	}
	return l.commit(runs, l.failedRun(runs, q, a, err, started), q.calls...)
}

// generate fetches the files of the question and calls the model until it has
// answered. A /stop ends it: it then returns errStopped with the answer so far, and
// errCancelled where this run alone was to end. It returns errJoined where it has to begin again with more messages,
// errAsked where it waits for the answer of a person, and errWithdrawn where all of its messages were withdrawn. died
// says that the last round of its journal was left by a process that died.
func (l *loop) generate(runs context.Context, q *question, begun journal.Run, died bool) (answer, error) {
	ctx, cancel := context.WithCancelCause(runs)
	defer cancel(nil)

	// The router ends the run. A goroutine that waits for l.stop would cost every run a
	// stack.
	number := q.took[0].ID
	run := &active{number: number, stop: cancel}
	if q.again == 0 {
		run.left = map[string]bool{}
		for _, in := range q.took {
			run.left[in.SourceID] = true
		}
	}
	l.active.Store(run)
	defer l.active.Store(nil)
	select {
	case <-l.stop: // it came before l.active was set
		cancel(errStopped)
	default:
	}
	if l.cancel.Load() == number { // likewise
		cancel(errCancelled)
	}
	g := &generation{loop: l, deps: l.deps, to: q.destination(), notice: l.router.expiryNotice(q.snapshot.Conversation), number: number, conversation: q.snapshot.Conversation.ID, setup: q.setup}
	g.answer.warnings = slices.Clone(q.leftOut)
	g.budget = l.router.budgets.Of(l.key, q.setup.label(), q.setup.model.Budget)
	g.once = q.once
	g.journal, g.changed, g.died = begun, begun.ID != 0 && changed(begun, q.took), died
	g.questions, g.askers = l.unfinished.questions, askersOf(q.took)
	g.first = q.took[0]
	if q.again == 0 && len(begun.Rounds) == 0 {
		g.join = &joining{began: time.Now(), took: q.took[len(q.took)-1], cancel: cancel}
		l.join.Store(g.join)
		defer l.join.Store(nil)
	}
	err := recovered(func() error {
		l.fetchFiles(ctx, q)
		q.charged = q.shares()
		g.charge = l.router.charge(l.key, g.first.Channel(), q.charged)
		release, err := l.reserveImages(ctx, q)
		if err != nil {
			return err
		}
		defer release()
		g.openWithSummary(ctx, q)
		snapshot, asked := l.withImages(ctx, *q)
		q.hint = l.router.hintFor(ctx, snapshot, asked, g.calibration().Budget(g.budget))
		if g.options, err = modelOptions(optionsOf(q.took)); err != nil {
			return err
		}
		asked = l.router.withOverheard(asked, q.asked)
		g.window = l.router.windowWithHint(instructed(snapshot, q.took), asked, q.hint)
		return g.run(tools.WithSession(ctx, tools.Session{
			Key: l.key, Conversation: q.snapshot.Conversation.ID, Window: g.budget, Asked: q.took[len(q.took)-1],
		}))
	})
	l.router.budgets.Used(l.key, q.setup.label(), g.budget, q.setup.model.Budget)
	q.window, q.told = g.window.Place(), g.window.Told()
	for _, cause := range []error{errStopped, errCancelled, errJoined, errWithdrawn} {
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
	setup   setup
	window  window.Window
	to      conversation.Destination
	notice  string       // stands before the text in previews
	budget  int          // shrinks when the model refuses a list as too long
	options *llm.Options // options of the model's calls; nil = as configured
	join    *joining     // nil: the run never begins again

	journal   journal.Run // what the run did in a process that has died
	journaled int         // how many of the answer's steps are in the journal
	resuming  bool        // the rounds of the journal are being added to the answer
	changed   bool        // the messages were edited since the journal was begun
	died      bool        // the process died in the last round of the journal

	questions []approvals.Question // that the run had asked when it began
	askers    []approvals.Person   // the senders of the messages that it answers
	first     conversation.Inbound // the first of the messages that the run took
	charge    []budgets.Call       // names whose budgets the calls use: those of the senders of the messages
	standing  map[string]string    // the definitions of the tools that are always allowed in the session; nil = not read yet

	once bool // each model call is made once

	number       int64  // number of the run
	conversation string // ID of the conversation
	unsummarised int64  // seq of the message before which a summary could not be made in this run; 0 = none
	answer       answer
	text         strings.Builder // text of the call under way
	thought      strings.Builder // reasoning of the call under way
}

// run calls the model and the tools it asks for, until it answers without tools.
func (g *generation) run(ctx context.Context) error {
	round, err := g.resume(ctx)
	if err != nil {
		return err
	}
	for ; ; round++ {
		last := round >= g.setup.agent.MaxToolRounds
		response, err := g.call(ctx, last)
		if err != nil {
			return err
		}
		said := g.said(ctx, response)
		if said.Finish = cutReason(response.FinishReason); said.Finish != "" {
			g.deps.Log.Warn("answer cut off", "session", g.loop.key, "model", response.Model, "finish_reason", said.Finish,
				"completion_tokens", response.Usage.Completion, "tool_calls", len(response.ToolCalls))
		}
		if len(response.ToolCalls) > 0 && said.Finish == "" && g.join != nil && !g.join.start() {
			return errJoined
		}
		if len(response.ToolCalls) == 0 {
			g.add(said)
			return nil
		}
		stored, said, err := g.storeRound(ctx, said)
		if err != nil {
			return err
		}
		g.add(said)
		results, err := g.resultsOf(ctx, said, stored)
		g.add(results...)
		if err != nil {
			return err
		}
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
	case steps.FinishLength, steps.FinishContentFilter, steps.FinishCutOff:
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
	offered := g.setup.agent.MaxToolRounds > 0 && len(g.window.Tools()) > 0
	for {
		sent := g.fit(ctx)
		if sent.Cramped {
			return llm.Response{}, g.noRoom(sent)
		}
		g.window.Sent(sent)
		g.deps.Log.Debug("window", "session", g.loop.key, "run", g.number, "messages", len(sent.Messages)-1, "tokens", sent.Tokens, "left_out", sent.Left, "budget", g.budget)
		shown := sent // to the model that is called
		request := g.request(sent, &shown)
		if offered {
			request.Tools, request.InWords = g.window.Tools(), last
		}
		g.clearPreview()
		asked := time.Now()
		if cause := g.loop.router.givesUp(g.setup.label(), g.first.DeferredSince); cause != nil {
			g.noteCall(refusedStep(g.setup.label(), g.deps.Store.At(asked), cause))
			return llm.Response{}, cause
		}
		response, warnings, err := g.loop.router.callModel(ctx, g.setup.model.Model, g.charge, sent.Tokens, request, g.preview)
		g.warn(ctx, warnings)
		if llm.KindOf(err) == llm.KindOverBudget {
			g.noteCall(refusedStep(g.setup.label(), g.deps.Store.At(asked), err))
			return llm.Response{}, err
		}
		if kind := llm.KindOf(err); err == nil || kind != "" && kind != llm.KindNoAnswer && !kind.IsServers() {
			g.loop.router.outages.answered(g.setup.label(), g.loop.key, g.deps.Store.Now())
		}
		g.answer.count(response)
		if !last && shown.Exact {
			g.calibration().Learn(shown.Tokens, response.Usage.Prompt)
		}
		var failure *llm.Error
		if errors.As(err, &failure) && failure.Kind == llm.KindTooLong {
			if !g.shrink(sent, failure.Limit) {
				return response, g.tooLong(failure, sent)
			}
			g.deps.Log.Warn("list too long for the model; sending less", "session", g.loop.key, "budget", g.budget, "limit", failure.Limit)
			continue
		}
		if last && offered && (err == nil && response.Text == "" && len(response.Images) == 0 || failure != nil && failure.Kind == llm.KindRefused) {
			offered = false
			continue
		}
		if err == nil && last && len(response.ToolCalls) > 0 {
			response.ToolCalls = nil
			if response.Text == "" && len(response.Images) == 0 {
				err = g.onlyTools()
			}
		}
		if err != nil {
			g.answer.partial, g.answer.thought = response.Text, response.Reasoning
		}
		return response, err
	}
}

// request returns a model call without tools. If a fallback model is called, it stores in shown the list that this model is sent.
func (g *generation) request(sent window.List, shown *window.List) llm.Request {
	return llm.Request{
		Messages: sent.Messages, CacheKey: cacheKey(g.conversation), Options: g.options,
		Temperature: g.setup.agent.Temperature, MaxOutputTokens: g.setup.agent.MaxOutputTokens,
		Attempted: func(a llm.Attempt) { g.noteCall(g.loop.router.modelStep(a, *shown)) },
		Waiting:   g.waiting,
		Once:      g.once,
		Rebuild:   func(contextWindow int) []llm.Message { return g.rebuild(contextWindow, shown) },
	}
}

// calibration returns that of the model that has answered last in the run, else of its own.
func (g *generation) calibration() *window.Calibration {
	if g.answer.fallback != nil {
		return g.loop.router.calibrations.Of(g.answer.model)
	}
	return g.loop.router.calibrations.Of(g.setup.label())
}

// rebuild returns the messages of the call for a fallback model that takes fewer tokens, nil if
// there is no room for them. The window of the conversation stays where it is.
func (g *generation) rebuild(contextWindow int, shown *window.List) []llm.Message {
	if g.deps.BudgetFor == nil {
		return shown.Messages
	}
	list := g.window.Fit(min(g.deps.BudgetFor(contextWindow), g.budget))
	if list.Cramped {
		return nil
	}
	*shown = list
	return list.Messages
}

// noteCall adds an attempt at a model call to the steps of the run, and its tokens to the sums of the run: the provider charges failed
// attempts, too.
func (g *generation) noteCall(step steps.Step) {
	g.answer.steps = append(g.answer.steps, step)
	g.answer.prompt += step.Prompt
	g.answer.cached += step.Cached
	g.answer.completion += step.Completion
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

// shortWait is how long a call may wait for its next attempt without a word, unless the
// model is busy.
const shortWait = 2 * time.Second

// waiting tells the people in the chat why no answer comes. A program would take it for
// the answer.
func (g *generation) waiting(w llm.Waiting) {
	if !g.first.DeferredSince.IsZero() || w.Kind != llm.KindBusy && w.For < shortWait || g.deps.OfPrograms != nil && g.deps.OfPrograms(g.loop.key) {
		return
	}
	g.deps.Watcher.Waiting(g.loop.key, g.to, Wait{Notice: g.notice, Words: w.Words(), Untimed: w.Untimed(), For: w.For})
}

// clearPreview forgets what the call before has said and thought.
func (g *generation) clearPreview() {
	g.text.Reset()
	if g.thought.Len() > 0 {
		g.thought.Reset()
		g.deps.Watcher.Thinking(g.loop.key, g.to, "")
	}
}

func (g *generation) preview(d llm.Delta) {
	if g.join != nil && d.Text != "" && !g.join.start() {
		return
	}
	if d.Reset {
		g.text.Reset()
		g.thought.Reset()
	}
	if d.Reasoning != "" || d.Reset {
		g.thought.WriteString(d.Reasoning)
		g.deps.Watcher.Thinking(g.loop.key, g.to, g.thought.String())
	}
	if d.Text == "" && !d.Reset {
		return
	}
	g.text.WriteString(d.Text)
	g.deps.Watcher.Preview(g.loop.key, g.to, g.notice+g.text.String())
}

// maxStepError is how many characters of an error a step keeps. The log has all.
const maxStepError = 300

// modelStep returns an attempt at a model call as a step of the run.
func (r *Router) modelStep(a llm.Attempt, sent window.List) steps.Step {
	step := steps.Step{
		Kind:       steps.Model,
		Name:       a.Model,
		At:         r.deps.Store.At(a.At),
		Took:       a.Took,
		FirstByte:  a.FirstByte,
		Prompt:     a.Usage.Prompt,
		Cached:     a.Usage.Cached,
		Completion: a.Usage.Completion,
		Cost:       r.deps.Budgets.costOf(a),
		Shown:      int64(len(sent.Messages)) - 1, // the first is the system prompt
		Left:       sent.Left,
		Window:     sent.Tokens,

		FinishReason: cutReason(a.FinishReason),
	}
	if a.Err != nil {
		step.Error, step.Failure = plaintext.ShortLine(a.Err.Error(), maxStepError), string(llm.KindOf(a.Err))
	}
	return step
}
