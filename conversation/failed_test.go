package conversation

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// refuse has the platform refuse the session's next reply, of which it has taken
// a part.
func refuse(t testing.TB, s *Store, key Key) Delivery {
	t.Helper()
	due, err := s.Deliveries(t.Context(), DeliveryQuery{Key: key, Ready: true, Limit: 1})
	if err != nil || len(due) != 1 {
		t.Fatalf("due: %+v, %v", due, err)
	}
	d := due[0]
	d.Sent, d.Attempts = []string{"part 1"}, 3
	if err := s.Mark(t.Context(), d, MarkFailed, "blocked by the user"); err != nil {
		t.Fatal(err)
	}
	return d
}

// The operator sees which replies were refused and why, and sends one again once
// the reason is gone: only the missing parts, and not twice for two clicks.
func TestAFailedReplyIsSentAgain(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, chat, 1)
	refused := refuse(t, s, chat)
	exchange(t, s, "telegram:chat:7", 1)
	refuse(t, s, "telegram:chat:7")
	exchange(t, s, chat, 2)

	list, err := s.FailedDeliveries(t.Context(), 1, 5)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	c, _ := s.Active(t.Context(), chat)
	refused.Reason = "blocked by the user"
	want := FailedDelivery{Delivery: refused, RunID: 1, Conversation: c.ID, Again: true}
	if diff := cmp.Diff(want, list[0]); diff != "" {
		t.Error(diff)
	}
	again, err := s.Redeliver(t.Context(), refused.ID)
	if err != nil || again.Text != "answer 1" || again.Attempts != 0 || again.Key != chat {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := s.Redeliver(t.Context(), refused.ID); !errors.Is(err, ErrNotFailed) {
		t.Errorf("the second click: %v", err)
	}
	due, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 5})
	if err != nil || len(due) != 2 {
		t.Fatalf("%+v, %v", due, err)
	}
	if diff := cmp.Diff(again, due[0]); diff != "" {
		t.Errorf("it does not keep its place: %s", diff)
	}
	if diff := cmp.Diff([]string{"part 1"}, due[0].Sent); diff != "" {
		t.Errorf("taken parts: %s", diff)
	}
	if err := s.Mark(t.Context(), again, MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, `outbox WHERE state = 'sent' AND text = ''`); n != 1 {
		t.Errorf("%d replies were sent", n)
	}
}

// The words of a deleted conversation must not be sent again, nor shown to the
// operator, at any moment of its deletion.
func TestAFailedReplyOfADeletedConversationIsForgotten(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, chat, 1)
	refused := refuse(t, s, chat)
	clearConversation(t, s, 2)
	for _, when := range []string{"hidden", "swept away"} {
		list, err := s.FailedDeliveries(t.Context(), 0, 5)
		if err != nil || len(list) != 1 || list[0].Again || list[0].Text != "" || list[0].Reason == "" {
			t.Errorf("%s: %+v, %v", when, list, err)
		}
		if _, err := s.Redeliver(t.Context(), refused.ID); !errors.Is(err, ErrNotFailed) {
			t.Errorf("%s: it can be sent again: %v", when, err)
		}
		chores(t, s)
	}
}

// Failed replies are kept for a week, like all that has ended.
func TestFailedRepliesArePruned(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	exchangeNow(t, s, clock, chat, 1, "refused")
	refuse(t, s, chat)
	clock.pass(6 * day)
	exchangeNow(t, s, clock, chat, 2, "the newest")
	for _, want := range []int{1, 0} {
		mustClean(t, s, 0, 0)
		if list, err := s.FailedDeliveries(t.Context(), 0, 5); err != nil || len(list) != want {
			t.Errorf("%d are kept, want %d (%v)", len(list), want, err)
		}
		clock.pass(2 * day)
	}
}

// What piles up is told by channel, and since when.
func TestQueuesAreToldByChannel(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	if list, err := Queues(t.Context(), s); err != nil || len(list) != 0 {
		t.Errorf("nothing waits: %+v, %v", list, err)
	}
	began := clock.now()
	exchangeNow(t, s, clock, chat, 1, "one")
	clock.pass(time.Minute)
	exchangeNow(t, s, clock, chat, 2, "two")
	mustAccept(t, s, sayNow(clock, "discord:dm:1", 1, "waits"))
	mustAccept(t, s, sayNow(clock, "discord:dm:2", 2, "waits"))
	talk(t, s, page, 1, "kept replies", "are not due")
	list, err := Queues(t.Context(), s)
	want := []Queue{
		{Channel: "discord", Waiting: 2, OldestWaiting: began.Add(time.Minute)},
		{Channel: "telegram", Due: 2, OldestDue: began},
	}
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// A reply that is set aside is due all the same, keeps since when, and is not among
// those that are sent in order. Sent again after a failure, it is like any other.
func TestHeldDeliveryIsDueBesideTheOthers(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	exchange(t, s, chat, 1)
	exchange(t, s, chat, 2)
	due, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 5})
	if err != nil || len(due) != 2 {
		t.Fatalf("%+v, %v", due, err)
	}
	began, bad := clock.now(), due[0]
	for range 2 {
		bad.Attempts += 3
		if err := s.Mark(t.Context(), bad, MarkHeld, "500"); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Hour)
	}
	if due, err = s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 5}); err != nil || len(due) != 1 || due[0].Text != "answer 2" {
		t.Errorf("in order: %+v, %v", due, err)
	}
	held, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Held: true, Limit: 5})
	if err != nil || len(held) != 1 || held[0].Attempts != 6 || !held[0].HeldAt.Equal(began) {
		t.Fatalf("set aside: %+v, %v", held, err)
	}
	if behind, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Held: true, After: held[0].ID, Limit: 5}); err != nil || len(behind) != 0 {
		t.Errorf("behind it: %+v, %v", behind, err)
	}
	if keys, err := s.Due(t.Context(), Scope{Channel: "telegram"}); err != nil || len(keys) != 1 {
		t.Errorf("sessions: %v, %v", keys, err)
	}
	if queues, err := Queues(t.Context(), s); err != nil || len(queues) != 1 || queues[0].Due != 2 || queues[0].Held != 1 || !queues[0].OldestHeld.Equal(began) {
		t.Errorf("queues: %+v, %v", queues, err)
	}
	if all, err := s.Deliveries(t.Context(), DeliveryQuery{Held: true, Limit: 5}); err != nil || len(all) != 1 || all[0].Key != chat || all[0].Reason != "500" {
		t.Errorf("over all sessions: %+v, %v", all, err)
	}
	if err := s.Mark(t.Context(), held[0], MarkFailed, "given up"); err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(t.Context(), held[0], MarkHeld, "too late"); err != nil {
		t.Fatal(err)
	}
	if held, err = s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Held: true, Limit: 5}); err != nil || len(held) != 0 {
		t.Errorf("after the failure: %+v, %v", held, err)
	}
	if again, err := s.Redeliver(t.Context(), bad.ID); err != nil || !again.HeldAt.IsZero() {
		t.Errorf("again: %+v, %v", again, err)
	}
}
