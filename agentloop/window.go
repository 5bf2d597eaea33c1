package agentloop

import (
	"context"
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
		snapshot, _ = r.renewed(snapshot).Replacing()
		waiting := nextToAnswer(snapshot.Waiting)
		users := slices.Concat(r.noteMessages(snapshot.Notes), r.userMessages(waiting))
		budget := r.budgetOf(key)
		hint := r.hintFor(ctx, snapshot, users, r.budgets.Of(key, r.deps.Budget))
		next := r.windowWithHint(instructed(snapshot, waiting), users, hint)
		sent := next.Counted(budget)
		if prepared, list, ok := r.withPrepared(ctx, next, sent, snapshot.Conversation.ID, budget); ok {
			next, sent = prepared, list
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
	if r.isNarrow(snapshot) {
		return r.deps.Store.Widen(ctx, snapshot, r.deps.Budget)
	}
	return snapshot, nil
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
