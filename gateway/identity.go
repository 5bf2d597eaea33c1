package gateway

import (
	"parley/config"
	"parley/conversation"
)

// sharedSessions are the sessions that span all private chats of one person: the
// person's name by each linked account, "telegram:42".
type sharedSessions map[string]string

// newSharedSessions reads who is linked; nobody is while every place is a
// session of its own.
func newSharedSessions(cfg config.Config) sharedSessions {
	if cfg.Conversation.Scope != conversation.ScopeUser {
		return nil
	}
	linked := sharedSessions{}
	for name, accounts := range cfg.Identity {
		for _, account := range accounts {
			linked[account] = name
		}
	}
	return linked
}

// join gives a message to the session of its sender where it came by a private
// chat of somebody linked. Its place stays known as its origin, and its address
// as it was: there the reply goes.
func (s sharedSessions) join(in conversation.Inbound) conversation.Inbound {
	name, linked := s[in.Channel()+":"+in.Sender.ID]
	if !linked || in.Group {
		return in
	}
	in.Origin, in.Key = in.Key, conversation.Key("user:"+name)
	in.Place = "all private chats with " + name
	return in
}

// joinAll is join for a batch, which stays as it was.
func (s sharedSessions) joinAll(batch []conversation.Inbound) []conversation.Inbound {
	if len(s) == 0 {
		return batch
	}
	joined := make([]conversation.Inbound, len(batch))
	for i, in := range batch {
		joined[i] = s.join(in)
	}
	return joined
}
