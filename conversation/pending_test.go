package conversation_test

import (
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
)

// The operator sees the waiting messages and replies of all sessions, the oldest first,
// until they are answered and sent.
func TestWaitingMessagesOfAllSessionsAreListed(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	other := conversation.Key("discord:dm:7")
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "one"), storetest.Say(other, 2, "two"))
	waiting, err := s.Inbox(t.Context(), "", 10)
	if err != nil || len(waiting) != 2 || waiting[0].Text != "one" || waiting[1].Key != other || waiting[1].Channel() != "discord" {
		t.Fatalf("%+v, %v", waiting, err)
	}
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "answer"))
	if waiting, err = s.Inbox(t.Context(), "", 10); err != nil || len(waiting) != 1 || waiting[0].Key != other {
		t.Errorf("%+v, %v", waiting, err)
	}
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Limit: 10})
	if err != nil || len(due) != 1 || due[0].Key != storetest.Chat || due[0].Text != "answer" {
		t.Fatalf("%+v, %v", due, err)
	}
	due[0].Attempts = 4
	if err := s.Mark(t.Context(), due[0], conversation.MarkTried, "the platform is away"); err != nil {
		t.Fatal(err)
	}
	if due, err = s.Deliveries(t.Context(), conversation.DeliveryQuery{Limit: 10}); err != nil || len(due) != 1 || due[0].Attempts != 4 || due[0].Reason != "the platform is away" || due[0].Text != "answer" {
		t.Fatalf("after failed tries: %+v, %v", due, err)
	}
	if err := s.Mark(t.Context(), due[0], conversation.MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	if due, err = s.Deliveries(t.Context(), conversation.DeliveryQuery{Limit: 10}); err != nil || len(due) != 0 {
		t.Errorf("%+v, %v", due, err)
	}
}
