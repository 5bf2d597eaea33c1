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
	"parley/internal/postgrestest"
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

// One of two calls was asked about before: the person is asked about the other one now, and not only once the first is
// answered.
func TestCallIsAskedAboutBesideOneThatWasAskedBefore(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	q, all := asked(t, s, "pay"), approvals.New(s)
	ask := approvals.Asking{Run: q.Run, Round: 1, Until: time.Now().Add(time.Hour), Calls: []approvals.Call{
		{ID: q.CallID, Tool: "pay", Arguments: "{}"}, {ID: "b", Tool: "renew", Arguments: "{}"},
	}}
	due, err := all.Ask(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	open, err := all.Open(t.Context(), room)
	if err != nil || len(open) != 2 || len(due) != 1 {
		t.Errorf("%d open questions, %d messages, %v", len(open), len(due), err)
	}
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

// Another node closes a question at the same moment. Its answer counts: nobody is told that another one does, no standing approval comes
// of one that came too late, and the chat is told once that the time is over.
func TestAnswerOnAnotherNodeCounts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile string // what the other node stores
		late      func(t *testing.T, a *approvals.Approvals, q approvals.Question)
	}{
		"an answer": {`state = 'denied', answered_by = 'the operator'`, func(t *testing.T, a *approvals.Approvals, q approvals.Question) {
			q, given, err := a.Give(t.Context(), approvals.Answer{ID: q.ID, Session: room, Allow: true, Remember: true, By: "Ann"})
			if given || err != nil || q.State != approvals.Denied {
				t.Errorf("given: %t, %s, %v", given, q.State, err)
			}
			if standing, err := a.Standing(t.Context(), room); err != nil || len(standing) != 0 {
				t.Errorf("always allowed: %v, %v", standing, err)
			}
		}},
		"its end": {`state = 'expired', answered_at = 1`, func(t *testing.T, a *approvals.Approvals, q approvals.Question) {
			words := func([]approvals.Question) approvals.Message { return approvals.Message{Text: "too late"} }
			expired, due, err := a.Expire(t.Context(), func(conversation.Account) bool { return true }, words)
			if len(expired) != 0 || len(due) != 0 || err != nil {
				t.Errorf("%d expired, %d notices, %v", len(expired), len(due), err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			s, err := conversation.Open(t.Context(), conversation.Config{Path: url})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			q := asked(t, s, "pay")
			if name == "its end" {
				postgrestest.Exec(t, url, `UPDATE approvals SET expires_at = 1`)
			}
			other, watching := postgrestest.Connect(t, url), postgrestest.Connect(t, url)
			for _, statement := range []string{`BEGIN`, `UPDATE approvals SET ` + tt.meanwhile} {
				if _, err := other.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			var late sync.WaitGroup
			late.Go(func() { tt.late(t, approvals.New(s), q) })
			for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
				if err := watching.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (
					SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waiting); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := other.Exec(t.Context(), `COMMIT`); err != nil {
				t.Fatal(err)
			}
			late.Wait()
		})
	}
}
