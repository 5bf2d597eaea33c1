package agentloop

import (
	"context"
	"math"
	"slices"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/summary"
	"parley/llm"
)

// Window is what the model would be sent for a session now.
type Window struct {
	Conversation conversation.Conversation // a fresh one, which is not stored, where none is active
	Messages     []llm.Message             // the system prompt first; images without their bytes
	Tools        []llm.Tool
	Left         int64 // messages of the conversation that are not in the window
	Tokens       int   // of messages and tools, as the gateway counts them
	Budget       int   // the most that Tokens may be
}

// Window returns what the model would be sent for a session now, with the messages
// that wait. It changes nothing and does not wait for the session's loop.
func (r *Router) Window(ctx context.Context, key conversation.Key) (Window, error) {
	snapshot, err := r.deps.Store.Peek(ctx, key, r.deps.Budget)
	if err == nil {
		snapshot, err = r.complete(ctx, snapshot)
	}
	if err != nil {
		return Window{}, err
	}
	var w Window
	err = recovered(func() error {
		snapshot, _, err := r.replacing(ctx, snapshot)
		if err != nil {
			return err
		}
		waiting := nextToAnswer(snapshot.Waiting)
		users := slices.Concat(r.noteMessages(snapshot.Notes), r.userMessages(waiting))
		budget := r.budgetOf(key)
		hint := r.hintFor(ctx, snapshot, users, r.budgets.Of(key, r.deps.Budget))
		next := r.windowWithHint(instructed(snapshot, waiting), users, hint)
		sent := next.Counted(budget)
		if _, list, ok := r.withPrepared(ctx, next, sent, snapshot.Conversation.ID, budget); ok {
			sent = list
		}
		w = Window{Conversation: snapshot.Conversation, Messages: sent.Messages, Tools: r.frame.Tools, Left: sent.Left, Tokens: sent.Tokens, Budget: budget}
		return nil
	})
	return w, err
}

// windowWithHint returns the window in which the model is asked to answer some
// messages.
func (r *Router) windowWithHint(snapshot conversation.Snapshot, asked []conversation.Message, hint string) window.Window {
	return window.New(window.Input{
		Frame: r.frame, Snapshot: snapshot, Asked: asked, Hint: hint, StateTokens: min(r.deps.StateBudget, r.deps.Budget/4),
		KeepRecent: r.deps.KeepRecent,
	})
}

// complete adds to a snapshot that was read from the store what the window needs beside
// it: the summary, and older turns where the window has become far smaller than the
// budget.
func (r *Router) complete(ctx context.Context, snapshot conversation.Snapshot) (conversation.Snapshot, error) {
	if r.deps.Strategy == Summarization {
		var err error
		snapshot.Summary, err = summary.New(r.deps.Store).Before(ctx, snapshot.Conversation)
		if err != nil && !conversation.IsDamaged(err) { // without it where it is damaged
			return snapshot, err
		}
	}
	return r.widened(ctx, snapshot, math.MaxInt64)
}

// replacing returns the snapshot in which the waiting messages are answered, as
// Snapshot.Replacing does, with older turns where the window would be far smaller than
// the budget without the turn that is replaced.
func (r *Router) replacing(ctx context.Context, snapshot conversation.Snapshot) (_ conversation.Snapshot, undo int64, err error) {
	if snapshot, undo = r.renewed(snapshot).Replacing(); undo > 0 {
		snapshot, err = r.shortened(ctx, snapshot, undo)
	}
	return snapshot, undo, err
}

// shortened returns a snapshot whose newest turns, from a seq on, were taken out of the
// history: with the summary of what was said before them, and with older turns where the
// window has become far smaller than the budget.
func (r *Router) shortened(ctx context.Context, snapshot conversation.Snapshot, seq int64) (conversation.Snapshot, error) {
	if snapshot.Summary.Through >= seq { // it covers a part of what was taken out
		var err error
		before := snapshot.Conversation
		before.Window.Start = seq
		if snapshot.Summary, err = summary.New(r.deps.Store).Before(ctx, before); err != nil && !conversation.IsDamaged(err) {
			return snapshot, err
		}
	}
	return r.widened(ctx, snapshot, seq)
}

// widened returns a snapshot with older turns, all before a seq, where the window has
// become far smaller than the budget.
func (r *Router) widened(ctx context.Context, snapshot conversation.Snapshot, before int64) (conversation.Snapshot, error) {
	if !r.isNarrow(snapshot) {
		return snapshot, nil
	}
	return r.deps.Store.Widen(ctx, snapshot, before, r.deps.Budget)
}

// isNarrow reports whether the window of a snapshot has become far smaller than the
// budget.
func (r *Router) isNarrow(snapshot conversation.Snapshot) bool {
	return snapshot.Conversation.Window.Start > 1 &&
		r.windowWithHint(snapshot, nil, "").IsNarrow(r.budgetOf(snapshot.Conversation.Key))
}

// budgetOf returns the tokens that the next call of a session may have, as the gateway
// counts them.
func (r *Router) budgetOf(key conversation.Key) int {
	return r.calibration.Budget(r.budgets.Of(key, r.deps.Budget))
}
