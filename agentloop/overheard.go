package agentloop

import (
	"slices"

	"parley/agentloop/window"
	"parley/conversation"
)

// withOverheard returns the messages that a run asks the model with what was said in
// the place before them and not to the bot. That is a message by itself, which is not
// stored: no later window has it.
func (r *Router) withOverheard(asked []conversation.Message, took []conversation.Inbound) []conversation.Message {
	text := ""
	for _, in := range took {
		text = join(text, in.Overheard)
	}
	if text == "" {
		return asked
	}
	m := conversation.Message{Role: conversation.RoleUser, Content: "[said here before, and not to you; do not answer it by itself]\n" + text}
	m.Tokens = r.deps.Counter.Message(window.ToModel(&m))
	return slices.Concat([]conversation.Message{m}, asked)
}
