package gateway

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/config"
	"parley/conversation"
)

// linkedConfig returns a configuration in which Alice has an account on each platform.
func linkedConfig(scope string) config.Config {
	cfg := config.Default()
	cfg.Conversation.Scope = scope
	cfg.Identity = config.Identity{"alice": {"telegram:42", "discord:99"}}
	return cfg
}

func messageFrom(key conversation.Key, user string, group bool) conversation.Inbound {
	return conversation.Inbound{Key: key, Sender: conversation.Sender{ID: user}, Group: group}
}

// Only the private chats of a person's linked accounts are one session. Their messages in groups, and other
// people's messages, are not in it.
func TestPrivateChatsOfLinkedAccountsAreOneSession(t *testing.T) {
	t.Parallel()
	batch := []conversation.Inbound{
		messageFrom("telegram:chat:42", "42", false),
		messageFrom("telegram:chat:42:topic:7", "42", false),
		messageFrom("discord:dm:99", "99", false),
		messageFrom("telegram:chat:-100", "42", true),
		messageFrom("telegram:chat:-100:topic:3", "42", true),
		messageFrom("discord:thread:5", "99", true),
		messageFrom("discord:channel:5", "99", true),
		messageFrom("telegram:chat:99", "99", false), // an account with alice's number of another platform
		messageFrom("discord:dm:42", "42", false),
		messageFrom("cli:default", "", false),
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
	if diff := cmp.Diff(want, session(newSharedSessions(linkedConfig(config.ScopeUser)).joinAll(batch))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(places, session(newSharedSessions(linkedConfig(config.ScopePlace)).joinAll(batch))); diff != "" {
		t.Errorf("with every place its own: %s", diff)
	}
	if diff := cmp.Diff(places, session(batch)); diff != "" {
		t.Errorf("the adapter's batch, which it gives again if the store fails, was changed: %s", diff)
	}
}
