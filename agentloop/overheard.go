package agentloop

import (
	"slices"

	"parley/agentloop/window"
	"parley/conversation"
)

// withOverheard returns the messages that a run sends to the model. If people in the group
// have talked before them without addressing the bot, this talk is a message of its own in
// front of them. It is not stored, so no later window has it.
func (r *Router) withOverheard(asked []conversation.Message, took []conversation.Inbound) []conversation.Message {
	text := ""
	for _, in := range took {
		text = window.JoinLines(text, in.Overheard)
	}
	if text == "" {
		return asked
	}
	m := conversation.Message{Role: conversation.RoleUser, Content: "[said here before, and not to you; do not answer it by itself]\n" + text}
	m.Tokens = r.deps.Counter.Message(window.ToModel(&m))
	return slices.Concat([]conversation.Message{m}, asked)
}
