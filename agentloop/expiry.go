package agentloop

import (
	"parley/agentloop/command"
	"parley/conversation"
)

// renewed returns the snapshot in which a message is answered: one of a fresh
// conversation when the active one is over by Limits. Commands get
// the snapshot as it is, so that /history still finds what the user has left.
func (r *Router) renewed(snapshot conversation.Snapshot) conversation.Snapshot {
	return r.deps.Store.Expire(snapshot, r.deps.Limits)
}

// expiryNotice returns what stands before the first reply in a conversation that
// follows one that is over, and "" in any other. Programs, which parse the text of an
// answer, read beside it that a new conversation has begun.
func (r *Router) expiryNotice(c conversation.Conversation) string {
	if !c.Succeeds() || r.deps.OfPrograms != nil && r.deps.OfPrograms(c.Key) {
		return ""
	}
	return command.ExpiryNotice(c)
}

// announceExpiry puts the notice before the first reply of a run.
func (r *Router) announceExpiry(run conversation.Run) {
	if len(run.Replies) > 0 {
		run.Replies[0].Text = r.expiryNotice(run.Conversation) + run.Replies[0].Text
	}
}
