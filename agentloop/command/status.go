package command

import (
	"context"
	"fmt"
	"strings"

	"parley/agentloop/window"
	"parley/conversation/approvals"
)

var statusCommand = Command{
	Name: "status", Description: "Show the model, the conversation and its size",
	Private: true, Run: showStatus,
}

func showStatus(ctx context.Context, env Env, r Request) (Result, error) {
	c, now := r.Snapshot.Conversation, env.Store.Now()
	shown := window.New(window.Input{Frame: env.Frame, Snapshot: r.Snapshot, StateTokens: env.StateBudget}).Counted(env.Budget).Tokens
	var b strings.Builder
	fmt.Fprintf(&b, "- **Model:** %s\n", env.Model)
	if env.Agent != "" {
		fmt.Fprintf(&b, "- **Agent:** %s\n", env.Agent)
	}
	switch {
	case r.Snapshot.Damaged:
		b.WriteString("- **Conversation:** can't be read, since the database is damaged; /new begins a fresh one\n")
	case c.Messages == 0:
		b.WriteString("- **Conversation:** new, no messages yet\n")
	default:
		fmt.Fprintf(&b, "- **Conversation:** %s (%s)\n", orUntitled(c.Title), c.ID)
		fmt.Fprintf(&b, "- **Messages:** %d\n", c.Messages)
		fmt.Fprintf(&b, "- **Age:** begun %s ago, last used %s ago\n", span(now.Sub(c.CreatedAt)), span(now.Sub(c.UpdatedAt)))
		if r.Snapshot.Expire(env.Limits, now).Conversation.Succeeds() {
			b.WriteString("- **Expired:** the next message begins a new conversation; /history list will have this one\n")
		}
	}
	fmt.Fprintf(&b, "- **Tokens:** %d in the window of at most %d, %d in the whole conversation\n", shown, env.Budget, c.Tokens)
	open, err := approvals.New(env.Store).Open(ctx, r.Session)
	if err != nil {
		return Result{}, err
	}
	for _, q := range open {
		fmt.Fprintf(&b, "- **Waits for your answer:** %s, question %d, for %s more\n", q.ToolName(), q.ID, q.Left(now))
	}
	fmt.Fprintf(&b, "- **Session:** %s", r.Session)
	return Result{Text: b.String()}, nil
}
