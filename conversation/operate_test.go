package conversation_test

import (
	"errors"
	"testing"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/storetest"
)

// After a conversation was archived, the next message begins a new one, and the old one can still be read.
func TestArchiveEndsAConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	old, err := s.Archive(t.Context(), storetest.Chat, "")
	if err != nil {
		t.Fatal(err)
	}
	storetest.Turn(t, s, storetest.Chat, 2)
	now, err := s.Active(t.Context(), storetest.Chat)
	if err != nil || now.ID == old.ID || now.Messages != 2 {
		t.Errorf("the active conversation: %+v, %v", now, err)
	}
	if page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: old.ID, Turns: 5}); err != nil || len(page.Messages) != 2 {
		t.Errorf("the archived one: %+v, %v", page, err)
	}
	if _, err := s.Archive(t.Context(), "telegram:chat:7", ""); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("a chat in which nothing was said: %v", err)
	}
}

// Deleting a session deletes all its conversations, but not its waiting messages and no other session.
func TestDeletingASessionLeavesTheOthersAndWhatWaits(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for range 105 {
		storetest.Turn(t, s, storetest.Chat, int(s.Now().UnixNano()))
		if _, err := s.Archive(t.Context(), storetest.Chat, ""); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Turn(t, s, "telegram:chat:7", 1)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "still waiting"))

	if n, err := s.Delete(t.Context(), storetest.Chat, ""); err != nil || n != 105 {
		t.Fatalf("%d deleted, %v", n, err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM messages`).Scan(&left); err != nil || left != 2 {
		t.Errorf("%d messages are left, want the other session's 2 (%v)", left, err)
	}
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Waiting) != 1 || len(turn.History) != 0 {
		t.Errorf("what waits, and what it is answered with: %+v", turn)
	}
}

func TestDeletingOneConversationKeepsTheRest(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	old, err := s.Archive(t.Context(), storetest.Chat, "")
	if err != nil {
		t.Fatal(err)
	}
	storetest.Turn(t, s, storetest.Chat, 2)
	if n, err := s.Delete(t.Context(), "telegram:chat:7", old.ID); err != nil || n != 0 {
		t.Errorf("another session's conversation was deleted: %d, %v", n, err)
	}
	if n, err := s.Delete(t.Context(), storetest.Chat, old.ID); err != nil || n != 1 {
		t.Errorf("%d deleted, %v", n, err)
	}
	if list, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: storetest.Chat, Limit: 10}); err != nil || len(list) != 1 || !list[0].Active {
		t.Errorf("left: %+v, %v", list, err)
	}
}
