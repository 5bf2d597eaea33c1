package agentloop

import (
	"parley/agentloop/command"
	"parley/conversation"
)

// renewed is the turn as a message is answered in it: of a fresh conversation
// when the present one has rested for too long. Commands are given the turn as
// it is, so that they still find what they are about.
func (r *Router) renewed(snapshot conversation.Turn) conversation.Turn {
	return r.deps.Store.Expire(snapshot, r.deps.Expiration)
}

// opening is what stands before the first reply in a conversation that follows
// one at rest, and "" in any other.
func opening(c conversation.Conversation) string {
	if c.Rested == 0 {
		return ""
	}
	return command.ExpiryNotice(c.Rested)
}

// open puts the opening before the replies of a run.
func open(run conversation.Run) {
	if len(run.Replies) > 0 {
		run.Replies[0].Text = opening(run.Conversation) + run.Replies[0].Text
	}
}
