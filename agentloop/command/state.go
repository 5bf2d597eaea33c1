package command

import (
	"context"

	"parley/agentloop/window"
)

var stateCommand = Command{
	Name: "state", Description: "Show what the assistant is always told of this conversation",
	Private: true, ReadsTalk: true, Run: showState,
}

func showState(_ context.Context, env Env, r Request) (Result, error) {
	text := window.StateText(r.Snapshot.Conversation, window.FocusOf(r.Snapshot.History, nil), env.Counter, env.StateBudget)
	if text == "" {
		return Result{Text: "The assistant is told no state here: `state_budget` leaves no room for it."}, nil
	}
	return Result{Text: "What the assistant is told of this conversation in every turn:\n\n```yaml\n" + text + "```"}, nil
}
