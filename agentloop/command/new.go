package command

import (
	"context"
	"fmt"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
)

var newCommand = Command{
	Name: "new", Arguments: "[title]", Description: "Begin a new conversation; the present one is kept",
	Options: []Option{{Name: "title", Description: "What the new conversation is called"}},
	Run:     beginConversation,
}

func beginConversation(_ context.Context, _ Env, r Request) (Result, error) {
	c := r.Snapshot.Conversation
	title := window.OneLine(r.Arguments, maxTitle)
	if c.Messages == 0 && c.Title == "" && title == "" && !r.Snapshot.Damaged {
		return Result{Text: "A new conversation begins."}, nil // the active one is still empty, and goes on
	}
	text := "A new conversation begins."
	if title != "" {
		text = fmt.Sprintf("A new conversation begins: %s.", quoted(title))
	}
	if c.Messages > 0 {
		text += fmt.Sprintf(" %s, with %s, is kept: /history list.", capital(named(c)), plural(c.Messages, "message"))
	}
	return Result{Text: text, Effect: conversation.Effect{Archive: true, Title: title}}, nil
}

// ExpiryNotice returns what stands before the first reply of a conversation that
// follows an expired one, which rested for so long.
func ExpiryNotice(rested time.Duration) string {
	return fmt.Sprintf("A new conversation begins: the last one rested for %s. /history list has it.\n\n", span(rested))
}
