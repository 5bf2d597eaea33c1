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
	snapshot, err := r.deps.Store.Peek(ctx, key, r.setups.budget())
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
		budget := r.budgetOf(snapshot)
		hint := r.hintFor(ctx, snapshot, users, budget)
		next := r.windowWithHint(instructed(snapshot, waiting), users, hint)
		sent := next.Counted(budget)
		if _, list, ok := r.withPrepared(ctx, next, sent, snapshot.Conversation.ID, budget); ok {
			sent = list
		}
		w = Window{Conversation: snapshot.Conversation, Messages: sent.Messages, Tools: next.Tools(), Left: sent.Left, Tokens: sent.Tokens, Budget: budget}
		return nil
	})
	return w, err
}

// windowWithHint returns the window for a run that answers some messages, with a hint.
func (r *Router) windowWithHint(snapshot conversation.Snapshot, asked []conversation.Message, hint string) window.Window {
	s, pictures := r.setup(snapshot), 0
	if s.model.Vision {
		pictures = window.MaxPictures
	}
	return window.New(window.Input{
		Frame: r.setups.frame(r.deps.Counter, s.agent), Snapshot: snapshot, Asked: asked, Hint: hint, StateTokens: min(r.deps.StateBudget, s.model.Budget/4),
		Pictures: pictures, KeepRecent: r.deps.KeepRecent,
	})
}

// complete adds to a snapshot that was read from the store what the window needs beside
// it: the summary, and older turns where the window has become far smaller than the
// budget.
func (r *Router) complete(ctx context.Context, snapshot conversation.Snapshot) (conversation.Snapshot, error) {
	snapshot, err := r.summarised(ctx, snapshot, math.MaxInt64)
	if err != nil {
		return snapshot, err
	}
	return r.widened(ctx, snapshot, math.MaxInt64)
}

// summarised returns a snapshot with the newest summary of what stands before the window,
// before the newest turn that is left, and before a seq.
func (r *Router) summarised(ctx context.Context, snapshot conversation.Snapshot, before int64) (conversation.Snapshot, error) {
	if r.deps.Strategy != Summarization {
		return snapshot, nil
	}
	if last := window.LastTurn(snapshot.History); len(last) > 0 {
		before = min(before, last[0].Seq)
	}
	c := snapshot.Conversation
	if c.Window.Start > before || c.Window.Start == 0 && before < math.MaxInt64 {
		c.Window.Start = before
	}
	var err error
	if snapshot.Summary, err = summary.New(r.deps.Store).Before(ctx, c); conversation.IsDamaged(err) {
		err = nil // without it
	}
	return snapshot, err
}

// replacing returns the snapshot in which the waiting messages are answered, as
// Snapshot.Replacing and Store.Rewind do, with older turns where the window would be far
// smaller than the budget without the turns that are replaced.
func (r *Router) replacing(ctx context.Context, snapshot conversation.Snapshot) (_ conversation.Snapshot, undo int64, err error) {
	if snapshot, undo = r.renewed(snapshot).Replacing(); undo == 0 {
		snapshot, undo, err = r.deps.Store.Rewind(ctx, snapshot, r.setup(snapshot).model.Budget)
	}
	if err == nil && undo > 0 {
		snapshot, err = r.shortened(ctx, snapshot, undo)
	}
	return snapshot, undo, err
}

// shortened returns a snapshot whose newest turns, from a seq on, were taken out of the
// history: with older turns where nothing else is shown or the window has become far
// smaller than the budget, and with a summary of what was said before them.
func (r *Router) shortened(ctx context.Context, snapshot conversation.Snapshot, seq int64) (_ conversation.Snapshot, err error) {
	if len(window.Uncovered(snapshot.History, snapshot.Summary)) > 0 {
		return r.widened(ctx, snapshot, seq)
	}
	if snapshot, err = r.deps.Store.Widen(ctx, snapshot, seq, r.setup(snapshot).model.Budget); err != nil {
		return snapshot, err
	}
	return r.summarised(ctx, snapshot, seq)
}

// widened returns a snapshot with older turns, all before a seq, where the window has
// become far smaller than the budget.
func (r *Router) widened(ctx context.Context, snapshot conversation.Snapshot, before int64) (conversation.Snapshot, error) {
	if !r.isNarrow(snapshot) {
		return snapshot, nil
	}
	return r.deps.Store.Widen(ctx, snapshot, before, r.setup(snapshot).model.Budget)
}

// isNarrow reports whether the window of a snapshot has become far smaller than the
// budget.
func (r *Router) isNarrow(snapshot conversation.Snapshot) bool {
	return snapshot.Conversation.Window.Start > 1 &&
		r.windowWithHint(snapshot, nil, "").IsNarrow(r.budgetOf(snapshot))
}

// budgetOf returns the tokens that the next call of a session may have, as the gateway
// counts them.
func (r *Router) budgetOf(snapshot conversation.Snapshot) int {
	s := r.setup(snapshot)
	return r.calibrations.Of(s.label()).Budget(r.budgets.Of(snapshot.Conversation.Key, s.label(), s.model.Budget))
}
