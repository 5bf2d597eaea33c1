package agentloop

import (
	"parley/agentloop/command"
	"parley/conversation"
)

// renewed returns the snapshot in which a message is answered: that of a new conversation if
// the active one has expired by Limits. Commands get the snapshot unchanged, so that
// /history still finds the expired conversation.
func (r *Router) renewed(snapshot conversation.Snapshot) conversation.Snapshot {
	return snapshot.Expire(r.deps.Limits, r.deps.Store.Now())
}

// expiryNotice returns the text before the first reply in a conversation that follows an
// expired one, and "" for any other. Programs parse the text of an answer, so they get this
// information in a field of its own.
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
