package command

import (
	"context"
	"strings"

	"parley/agentloop/window"
)

// startCommand is what a platform sends when somebody opens the chat with the bot for
// the first time. No list shows it.
var startCommand = Command{Name: "start", Description: "Say hello", Run: greet}

// greet says how to talk to the assistant. It ignores the payload that a link to the bot may
// add to the command.
func greet(_ context.Context, _ Env, r Request) (Result, error) {
	var b strings.Builder
	b.WriteString("Hello")
	if in := r.Message; in.Sender.Name != "" {
		b.WriteString(", " + window.SenderName(in.Sender))
	}
	how := "Write to me as you would to a person"
	if r.Message.Group {
		how = "Mention me, or reply to one of my messages, and I answer here"
	}
	b.WriteString("! " + how + "; I remember this conversation. " +
		"`/new` begins another one, and `/help` lists what else I can do.")
	return Result{Text: b.String()}, nil
}
