package agentloop

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/budgets"
	"parley/conversation/steps"
	"parley/conversation/usage"
	"parley/llm"
)

// sideCall is a model call that writes no answer: a title or a summary.
type sideCall struct {
	purpose          steps.Purpose
	timeout          time.Duration
	system, question string
}

// asker makes side calls and records what they cost.
type asker struct {
	budget int // tokens of a window of the model that is asked
	call   func(ctx context.Context, a sideCall) (llm.Response, error)
}

// ask makes the call. It passes each attempt to attempted, as a step.
func (a sideCall) ask(ctx context.Context, r *Router, model Model, inBackground bool, to []budgets.Call, attempted func(steps.Step)) (llm.Response, []budgets.Use, error) {
	calling, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	request := llm.Request{
		Background: inBackground,
		Messages:   []llm.Message{{Role: "system", Content: a.system}, {Role: "user", Content: a.question}},
		Attempted: func(attempt llm.Attempt) {
			step := r.modelStep(attempt, window.List{})
			step.Purpose, step.Shown = a.purpose, 0
			attempted(step)
		},
	}
	return r.callModel(calling, model, to, r.requestTokens(request), request, func(llm.Delta) {})
}

// ask makes a call that belongs to the run under way.
func (g *generation) ask(ctx context.Context, a sideCall) (llm.Response, error) {
	answer, warnings, err := a.ask(ctx, g.loop.router, g.setup.model.Model, false, g.charge, g.noteCall)
	g.warn(ctx, warnings)
	return answer, err
}

// backgroundLevel returns the level at which a failed call in the background is logged.
func (r *Router) backgroundLevel(model *NamedModel) slog.Level {
	if r.outages.isFailing(model.label()) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// backgroundOf returns the record for calls that are made after the commit of a run.
func (l *loop) backgroundOf(run conversation.Run, id string) usage.Background {
	first := run.Took[0]
	return usage.Background{Conversation: id, Run: run.ID(), Channel: first.Channel(), Person: first.Sender, Shares: run.Shares}
}

// storeTimeout is how long the steps of a call in the background may take to be stored,
// also while the gateway ends.
const storeTimeout = 5 * time.Second

// errFailing is the error of a call in the background that was not made, since the latest run of its model has failed.
var errFailing = errors.New("not asked: the model is in trouble")

// askInBackground makes a model call after the commit of a run, and stores what it cost. The
// loop may have ended.
func (r *Router) askInBackground(ctx context.Context, key conversation.Key, model *NamedModel, record usage.Background, a sideCall) (llm.Response, error) {
	if r.outages.isFailing(model.label()) {
		return llm.Response{}, errFailing
	}
	shares := record.Shares
	if len(shares) == 0 {
		shares = []conversation.Share{{Sender: record.Person, Weight: 1}}
	}
	to := r.charge(key, record.Channel, shares)
	for i := range to {
		to[i].Unseen = true
	}
	answer, _, err := a.ask(ctx, r, model.Model, true, to, func(step steps.Step) {
		record.Steps = append(record.Steps, step)
		logCall(r.deps.Log, key, record.Run, step)
	})
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if lost := usage.New(r.deps.Store).AddBackground(storing, record); lost != nil {
		r.deps.Log.Warn("cost of a call not stored", "run", record.Run, "purpose", a.purpose, "error", lost)
	}
	return answer, err
}
