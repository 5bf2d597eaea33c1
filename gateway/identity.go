package gateway

import (
	"parley/config"
	"parley/conversation"
)

// sharedSessions maps each linked account, such as "telegram:42", to the name of its
// person. All private chats of a person share one session.
type sharedSessions map[string]string

// newSharedSessions reads the linked accounts. Without scope = "user" there are none.
func newSharedSessions(cfg config.Config) sharedSessions {
	if cfg.Conversation.Scope != config.ScopeUser {
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

// join moves a private message of a linked person to that person's session. Origin
// keeps the key of its chat, and the address stays, so that the reply goes there.
func (s sharedSessions) join(in conversation.Inbound) conversation.Inbound {
	name, linked := s[in.Channel()+":"+in.Sender.ID]
	if !linked || in.Group {
		return in
	}
	in.Origin, in.Key = in.Key, conversation.Key("user:"+name)
	in.Place = "all private chats with " + name
	return in
}

// joinAll applies join to a copy of batch.
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
