package gateway

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/config"
	"parley/conversation"
)

// linked is a configuration in which alice has an account on each platform.
func linked(scope string) config.Config {
	cfg := config.Default()
	cfg.Conversation.Scope = scope
	cfg.Identity = config.Identity{"alice": {"telegram:42", "discord:99"}}
	return cfg
}

func wrote(key conversation.Key, user string, group bool) conversation.Inbound {
	return conversation.Inbound{Key: key, Sender: conversation.Sender{ID: user}, Group: group}
}

// Only a person's private chats are shared. What they say among others stays
// there, and nobody else's words get into their session.
func TestPrivateChatsOfLinkedAccountsAreOneSession(t *testing.T) {
	t.Parallel()
	batch := []conversation.Inbound{
		wrote("telegram:chat:42", "42", false),
		wrote("telegram:chat:42:topic:7", "42", false),
		wrote("discord:dm:99", "99", false),
		wrote("telegram:chat:-100", "42", true),
		wrote("telegram:chat:-100:topic:3", "42", true),
		wrote("discord:thread:5", "99", true),
		wrote("discord:channel:5", "99", true),
		wrote("telegram:chat:99", "99", false), // an account with alice's number of another platform
		wrote("discord:dm:42", "42", false),
		wrote("cli:default", "", false),
	}
	places := make([]conversation.Key, len(batch))
	for i, in := range batch {
		places[i] = in.Key
	}
	session := func(list []conversation.Inbound) (keys []conversation.Key) {
		for i, in := range list {
			if in.Key != places[i] && in.Origin != places[i] || in.Channel() != places[i].Channel() {
				t.Errorf("%s came from %s by %s", places[i], in.Origin, in.Channel())
			}
			keys = append(keys, in.Key)
		}
		return keys
	}
	want := append([]conversation.Key{"user:alice", "user:alice", "user:alice"}, places[3:]...)
	if diff := cmp.Diff(want, session(newSharedSessions(linked(config.ScopeUser)).joinAll(batch))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(places, session(newSharedSessions(linked(config.ScopePlace)).joinAll(batch))); diff != "" {
		t.Errorf("with every place its own: %s", diff)
	}
	if diff := cmp.Diff(places, session(batch)); diff != "" {
		t.Errorf("the adapter's batch, which it gives again if the store fails, was changed: %s", diff)
	}
}
