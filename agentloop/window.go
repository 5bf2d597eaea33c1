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
	if err == nil && r.deps.Strategy == Summarization {
		snapshot.Summary, err = summary.New(r.deps.Store).Newest(ctx, snapshot.Conversation.ID)
	}
	if err != nil {
		return Window{}, err
	}
	var w Window
	err = recovered(func() error {
		snapshot, _ = r.renewed(snapshot).Replacing()
		users := slices.Concat(r.noteMessages(snapshot.Notes), r.userMessages(nextToAnswer(snapshot.Waiting)))
		budget := r.calibration.Budget(r.budgets.Of(key, r.deps.Budget))
		hint := r.hintFor(ctx, snapshot, users, r.budgets.Of(key, r.deps.Budget))
		sent := r.windowWithHint(snapshot, users, hint).Counted(budget)
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
	})
}
