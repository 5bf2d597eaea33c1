package command

import (
	"context"
	"strings"

	"parley/agentloop/window"
)

// startCommand is what a platform sends when somebody opens the chat with the bot for
// the first time. No list shows it.
var startCommand = Command{Name: "start", Description: "Say hello", Run: greet}

// greet says how to talk to the assistant. What follows the name, as in a link to the
// bot, is not read.
func greet(_ context.Context, _ Env, r Request) (Result, error) {
	var b strings.Builder
	b.WriteString("Hello")
	if in := r.Message; in.Sender.Name != "" {
		b.WriteString(", " + window.SenderName(in.Sender))
	}
	b.WriteString("! Write to me as you would to a person; I remember this conversation. " +
		"`/new` begins another one, and `/help` lists what else I can do.")
	return Result{Text: b.String()}, nil
}
