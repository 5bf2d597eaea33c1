package conversation

import "testing"

// The operator sees what waits in all sessions, the oldest first, and no more
// once it is answered and sent.
func TestWhatWaitsIsListedOverAllSessions(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	other := Key("discord:dm:7")
	mustAccept(t, s, say(chat, 1, "one"), say(other, 2, "two"))
	waiting, err := s.Inbox(t.Context(), "", 10)
	if err != nil || len(waiting) != 2 || waiting[0].Text != "one" || waiting[1].Key != other || waiting[1].Channel() != "discord" {
		t.Fatalf("%+v, %v", waiting, err)
	}
	mustCommit(t, s, answered(chat, mustBegin(t, s, chat, 1000), "answer"))
	if waiting, err = s.Inbox(t.Context(), "", 10); err != nil || len(waiting) != 1 || waiting[0].Key != other {
		t.Errorf("%+v, %v", waiting, err)
	}
	due, err := s.Deliveries(t.Context(), DeliveryQuery{Limit: 10})
	if err != nil || len(due) != 1 || due[0].Key != chat || due[0].Text != "answer" {
		t.Fatalf("%+v, %v", due, err)
	}
	due[0].Attempts = 4
	if err := s.Mark(t.Context(), due[0], MarkTried, "the platform is away"); err != nil {
		t.Fatal(err)
	}
	if due, err = s.Deliveries(t.Context(), DeliveryQuery{Limit: 10}); err != nil || len(due) != 1 || due[0].Attempts != 4 || due[0].Reason != "the platform is away" || due[0].Text != "answer" {
		t.Fatalf("after failed tries: %+v, %v", due, err)
	}
	if err := s.Mark(t.Context(), due[0], MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	if due, err = s.Deliveries(t.Context(), DeliveryQuery{Limit: 10}); err != nil || len(due) != 0 {
		t.Errorf("%+v, %v", due, err)
	}
}
