package agentloop

import (
	"context"
	"slices"

	"parley/conversation"
	"parley/llm"
)

// Window is what the model would be sent for a session.
type Window struct {
	Conversation conversation.Conversation // a fresh one, which is not stored, where none goes on
	Messages     []llm.Message             // the system prompt first; images without their bytes
	Tools        []llm.Tool
	Left         int64 // messages of the conversation that are not among Messages
	Tokens       int   // of all of it, as counted here
	Budget       int   // tokens that it may have
}

// Window gives what the model would be sent for a session now, with the messages
// that wait. It changes nothing, and waits for nobody.
func (r *Router) Window(ctx context.Context, key conversation.Key) (Window, error) {
	snapshot, err := r.deps.Store.Peek(ctx, key, r.deps.Budget)
	if err == nil && r.deps.Strategy == Summarization {
		snapshot.Summary, err = r.deps.Store.Summary(ctx, snapshot.Conversation.ID)
	}
	if err != nil {
		return Window{}, err
	}
	var w Window
	err = recovered(func() error {
		snapshot = r.renewed(snapshot)
		users := slices.Concat(r.noteMessages(snapshot.Notes), r.userMessages(ofOnePlace(untilCommand(snapshot.Waiting))))
		budget := r.calibration.Budget(r.budgets.Of(key, r.deps.Budget))
		sent := r.windowOf(snapshot, users).Counted(budget)
		w = Window{Conversation: snapshot.Conversation, Messages: sent.Messages, Tools: r.frame.Tools, Left: sent.Left, Tokens: sent.Tokens, Budget: budget}
		return nil
	})
	return w, err
}
