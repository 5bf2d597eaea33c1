package conversation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/retention"
	"parley/conversation/storetest"
)

// refuse marks the session's next reply as refused by the platform after its first part.
func refuse(t testing.TB, s *conversation.Store, key conversation.Key) conversation.Delivery {
	t.Helper()
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: key, Ready: true, Limit: 1})
	if err != nil || len(due) != 1 {
		t.Fatalf("due: %+v, %v", due, err)
	}
	d := due[0]
	d.Sent, d.Attempts = []string{"part 1"}, 3
	if err := s.Mark(t.Context(), d, conversation.MarkFailed, "blocked by the user"); err != nil {
		t.Fatal(err)
	}
	return d
}

// The operator lists refused replies with their reasons, and sends one again: only its missing parts are
// sent, and two clicks send it once.
func TestAFailedReplyIsSentAgain(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	refused := refuse(t, s, storetest.Chat)
	storetest.Turn(t, s, "telegram:chat:7", 1)
	refuse(t, s, "telegram:chat:7")
	storetest.Turn(t, s, storetest.Chat, 2)

	list, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Failed: true, Skip: 1, Limit: 5})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	c, _ := s.Active(t.Context(), storetest.Chat)
	refused.Reason = "blocked by the user"
	want := refused
	want.RunID, want.Conversation = 1, c.ID
	if diff := cmp.Diff(want, list[0]); diff != "" {
		t.Error(diff)
	}
	again, err := s.Redeliver(t.Context(), refused.ID)
	if err != nil || again.Text != "answer 1" || again.Attempts != 0 || again.Key != storetest.Chat {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := s.Redeliver(t.Context(), refused.ID); !errors.Is(err, conversation.ErrNotFailed) {
		t.Errorf("the second click: %v", err)
	}
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 5})
	if err != nil || len(due) != 2 {
		t.Fatalf("%+v, %v", due, err)
	}
	if diff := cmp.Diff(again, due[0]); diff != "" {
		t.Errorf("it does not keep its place: %s", diff)
	}
	if diff := cmp.Diff([]string{"part 1"}, due[0].Sent); diff != "" {
		t.Errorf("taken parts: %s", diff)
	}
	if err := s.Mark(t.Context(), again, conversation.MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	if n := storetest.Count(t, s, `SELECT count(*) FROM outbox WHERE state = 'sent' AND text = ''`); n != 1 {
		t.Errorf("%d replies were sent", n)
	}
}

// From the moment of a deletion on, failed replies of the conversation are neither listed nor sent again.
func TestFailedReplyOfADeletedConversationIsDeleted(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	refused := refuse(t, s, storetest.Chat)
	clearConversation(t, s, 2)
	for _, when := range []string{"hidden", "swept away"} {
		list, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Failed: true, Limit: 5})
		if err != nil || len(list) != 1 || list[0].Text != "" || list[0].Reason == "" {
			t.Errorf("%s: %+v, %v", when, list, err)
		}
		if _, err := s.Redeliver(t.Context(), refused.ID); !errors.Is(err, conversation.ErrNotFailed) {
			t.Errorf("%s: it can be sent again: %v", when, err)
		}
		storetest.Chores(t, s)
	}
}

// Failed replies are kept for a week, like settled messages.
func TestFailedRepliesArePruned(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	r := retention.New(s)
	storetest.TurnNow(t, s, clock, storetest.Chat, 1, "refused")
	refuse(t, s, storetest.Chat)
	clock.Pass(6 * day)
	storetest.TurnNow(t, s, clock, storetest.Chat, 2, "the newest")
	for _, want := range []int{1, 0} {
		clean(t, r, retention.Rules{})
		if list, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Failed: true, Limit: 5}); err != nil || len(list) != want {
			t.Errorf("%d are kept, want %d (%v)", len(list), want, err)
		}
		clock.Pass(2 * day)
	}
}

// A reply that is set aside is due, but not among those that are sent in order, and keeps the time when it
// was set aside. After a failure it is sent again like any other.
func TestHeldDeliveryIsDueSeparately(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	storetest.Turn(t, s, storetest.Chat, 2)
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 5})
	if err != nil || len(due) != 2 {
		t.Fatalf("%+v, %v", due, err)
	}
	began, bad := clock.Now(), due[0]
	for range 2 {
		bad.Attempts += 3
		if err := s.Mark(t.Context(), bad, conversation.MarkHeld, "500"); err != nil {
			t.Fatal(err)
		}
		clock.Pass(time.Hour)
	}
	if due, err = s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 5}); err != nil || len(due) != 1 || due[0].Text != "answer 2" {
		t.Errorf("in order: %+v, %v", due, err)
	}
	held, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Held: true, Limit: 5})
	if err != nil || len(held) != 1 || held[0].Attempts != 6 || !held[0].HeldAt.Equal(began) {
		t.Fatalf("set aside: %+v, %v", held, err)
	}
	if behind, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Held: true, After: held[0].ID, Limit: 5}); err != nil || len(behind) != 0 {
		t.Errorf("behind it: %+v, %v", behind, err)
	}
	if keys, err := s.Due(t.Context(), conversation.Scope{Channel: "telegram"}); err != nil || len(keys) != 1 {
		t.Errorf("sessions: %v, %v", keys, err)
	}
	if queues, err := bots.New(s).Queues(t.Context()); err != nil || len(queues) != 1 || queues[0].Due != 2 || queues[0].Held != 1 || !queues[0].OldestHeld.Equal(began) {
		t.Errorf("queues: %+v, %v", queues, err)
	}
	if all, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Held: true, Limit: 5}); err != nil || len(all) != 1 || all[0].Key != storetest.Chat || all[0].Reason != "500" {
		t.Errorf("over all sessions: %+v, %v", all, err)
	}
	if err := s.Mark(t.Context(), held[0], conversation.MarkFailed, "given up"); err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(t.Context(), held[0], conversation.MarkHeld, "too late"); err != nil {
		t.Fatal(err)
	}
	if held, err = s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Held: true, Limit: 5}); err != nil || len(held) != 0 {
		t.Errorf("after the failure: %+v, %v", held, err)
	}
	if again, err := s.Redeliver(t.Context(), bad.ID); err != nil || !again.HeldAt.IsZero() {
		t.Errorf("again: %+v, %v", again, err)
	}
}
