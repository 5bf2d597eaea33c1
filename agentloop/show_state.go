package agentloop

import (
	"context"

	"parley/agentloop/window"
	"parley/conversation"
)

// showState is /state.
func showState(l *loop, _ context.Context, turn conversation.Turn, _ string) (result, error) {
	state := window.StateText(turn.Conversation, window.FocusOf(turn.History, nil), l.Counter, l.StateBudget)
	if state == "" {
		return result{text: "The assistant is told no state here: `state_budget` leaves no room for it."}, nil
	}
	return result{text: "What the assistant is told of this conversation in every turn:\n\n```yaml\n" + state + "```"}, nil
}
