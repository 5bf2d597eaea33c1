package approvals_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/journal"
	"parley/conversation/storetest"
)

const room = conversation.Key("cli:room")

// asked stores a run of a room that asks about a tool, and returns its questions.
func asked(t *testing.T, s *conversation.Store, tool string) approvals.Question {
	t.Helper()
	storetest.Accept(t, s, storetest.Say(room, 1, "do it"))
	waiting, err := s.Inbox(t.Context(), room, 1)
	if err != nil {
		t.Fatal(err)
	}
	in := waiting[0]
	run := journal.Run{ID: in.ID, Key: room, Channel: "cli", Took: []journal.Message{{ID: in.ID}}, StartedAt: time.Now()}
	if _, err := journal.New(s).AddRound(t.Context(), run, journal.Round{}, nil); err != nil {
		t.Fatal(err)
	}
	all := approvals.New(s)
	ask := approvals.Asking{Run: in.ID, Round: 1, Calls: []approvals.Call{{ID: "a", Tool: tool, Arguments: "{}"}}, Until: time.Now().Add(time.Hour), Rememberable: true}
	for range 2 { // as after a commit that seemed to fail
		if _, err := all.Ask(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
	}
	open, err := all.Open(t.Context(), room)
	if err != nil || len(open) != 1 {
		t.Fatalf("open: %v, %v", open, err)
	}
	return open[0]
}

// When many answers are given at once, exactly one of them counts.
func TestOneOfManyAnswersCounts(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	q := asked(t, s, "pay")
	var mu sync.Mutex
	var given []approvals.State
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			q, first, err := approvals.New(s).Give(context.Background(), approvals.Answer{ID: q.ID, Session: room, Allow: i%2 == 0, By: "x"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if first {
				given = append(given, q.State)
			}
		})
	}
	all.Wait()
	now, err := approvals.New(s).Get(t.Context(), room, q.ID)
	if err != nil || len(given) != 1 || now.State != given[0] {
		t.Errorf("%d answers counted: %v; it is %s, %v", len(given), given, now.State, err)
	}
}

// A command that is repeated after a crash finds its own answer; every other command comes too late.
func TestRepeatedCommandGetsItsFirstResult(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	q := asked(t, s, "pay")
	for i, inbound := range []int64{7, 7, 8} {
		_, given, err := approvals.New(s).Give(t.Context(), approvals.Answer{ID: q.ID, Session: room, Allow: true, By: "Ann", Inbound: inbound})
		if err != nil || given != (i < 2) {
			t.Errorf("attempt %d: given %t, %v", i, given, err)
		}
	}
}

func TestStandingApprovalIsDeletedWithItsSession(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	q := asked(t, s, "pay")
	if _, _, err := approvals.New(s).Give(t.Context(), approvals.Answer{ID: q.ID, Session: room, Allow: true, Remember: true, By: "Ann"}); err != nil {
		t.Fatal(err)
	}
	if list, err := approvals.New(s).Standing(t.Context(), room); err != nil || len(list) != 1 || list[0].Tool != "pay" || list[0].By != "Ann" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := s.Delete(t.Context(), room, ""); err != nil {
		t.Fatal(err)
	}
	if list, err := approvals.New(s).Standing(t.Context(), room); err != nil || len(list) != 0 {
		t.Errorf("after the session was deleted: %v, %v", list, err)
	}
}
