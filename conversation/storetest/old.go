package storetest

import (
	"fmt"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/state"
)

// OldChats makes a database with two chats whose last message is 400 days old, the first
// with an archived conversation, and one chat of today. It stays open until the test ends.
func OldChats(t testing.TB, path string) *conversation.Store {
	t.Helper()
	day := 0
	clock := func() time.Time { return time.Now().AddDate(0, 0, day) }
	store := Open(t, path, conversation.Config{Now: clock})
	for i, talk := range []struct {
		day int
		key conversation.Key
		say string
	}{
		{-400, "telegram:chat:1", "Trip to Rome"},
		{-300, "telegram:chat:1", "Trip to Oslo"},
		{-400, "telegram:chat:2", "Bread \x1b[2J"},
		{0, "telegram:chat:3", "Today"},
	} {
		day = talk.day
		Answer(t, store, talk.key, i, talk.say, clock())
	}
	return store
}

// Answer stores a message and its reply, and marks the reply as sent.
func Answer(t testing.TB, s *conversation.Store, key conversation.Key, id int, text string, at time.Time) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Accept(t.Context(), nil, conversation.Inbound{Key: key, SourceID: fmt.Sprint(id), Text: text, At: at})
	must(err)
	turn, err := s.Begin(t.Context(), key, 1000)
	must(err)
	turn = turn.Expire(state.Limits{Idle: 30 * 24 * time.Hour}, s.Now())
	done, err := s.Commit(t.Context(), conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting,
		Conversation: turn.Conversation, Title: text,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: text}, {Role: conversation.RoleAssistant, Content: "So be it."}},
		Replies:  []conversation.Delivery{{Address: "there", Text: "So be it."}},
	})
	must(err)
	must(s.Mark(t.Context(), done.Replies[0], conversation.MarkSent, ""))
}
