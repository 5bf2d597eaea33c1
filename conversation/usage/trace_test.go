package usage

import (
	"errors"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/steps"
	"parley/conversation/storetest"

	"github.com/google/go-cmp/cmp"
)

// worked returns a run with one tool call and two model calls.
func worked(s *conversation.Store, turn conversation.Snapshot) conversation.Run {
	run := storetest.Answered(turn.Waiting[0].Key, turn, "half past nine")
	run.StartedAt = s.Now().Add(-3 * time.Second).Truncate(time.Millisecond)
	run.Model, run.Rounds, run.Prompt, run.Completion = "gpt", 2, 250, 25
	run.Steps = []steps.Step{
		{Kind: steps.Model, Name: "gpt", At: run.StartedAt, Took: time.Second, FirstByte: 300 * time.Millisecond, Prompt: 100, Completion: 20,
			Shown: 1, Left: 7, Window: 90},
		{Kind: steps.Tool, Name: "clock", At: run.StartedAt.Add(time.Second), Took: 20 * time.Millisecond, CallID: "call_1", Error: "it has stopped"},
		{Kind: steps.Model, Name: "gpt-mini", At: run.StartedAt.Add(1020 * time.Millisecond), Took: time.Second, Prompt: 150, Completion: 5, Error: "cut"},
	}
	return run
}

func TestATraceShowsWhatEveryRunDid(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	asked := storetest.Say(storetest.Chat, 1, "what time is it?")
	asked.Sender = conversation.Sender{ID: "42", Name: "Ada"}
	storetest.Accept(t, s, asked)
	run := worked(s, storetest.Begin(t, s, storetest.Chat, 1000))
	storetest.Commit(t, s, run)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "and now?"))
	failed := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "")
	failed.Status, failed.Error, failed.Messages = conversation.StatusFailed, "no answer", failed.Messages[:1]
	storetest.Commit(t, s, failed)

	c, err := s.Active(t.Context(), storetest.Chat)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := New(s).Trace(t.Context(), TraceQuery{Conversation: c.ID})
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Runs) != 2 || trace.Older || trace.Conversation.ID != c.ID {
		t.Fatalf("%+v", trace)
	}
	first, second := trace.Runs[0], trace.Runs[1]
	if diff := cmp.Diff(run.Steps, first.Steps); diff != "" {
		t.Error(diff)
	}
	if first.Asked != asked.Sender || first.ID != run.ID() || first.Messages != 2 || first.EndedAt.Sub(first.StartedAt) < 3*time.Second {
		t.Errorf("%+v", first)
	}
	if second.Status != conversation.StatusFailed || second.Error != "no answer" || len(second.Steps) != 0 {
		t.Errorf("%+v", second)
	}
	if diff := cmp.Diff([]RoleTotals{{Role: conversation.RoleAssistant, Messages: 1, Tokens: 10}, {Role: conversation.RoleUser, Messages: 2, Tokens: 20}}, trace.Roles); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]ToolTotals{{Name: "clock", Calls: 1, Failed: 1, Took: 20 * time.Millisecond}}, trace.Tools); diff != "" {
		t.Error(diff)
	}
	if n := len(trace.Models); n != 2 || trace.Models[0].Failed != 1 || trace.Models[1].Prompt != 250 || trace.Models[1].Messages != 2 {
		t.Errorf("%+v", trace.Models)
	}
}

// The time in which a run waits for a person does not count as time of the model.
func TestTraceExcludesTimeSpentWaitingForPeople(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "pay, please"))
	run := worked(s, storetest.Begin(t, s, storetest.Chat, 1000))
	began := s.Now().Add(-time.Hour).Truncate(time.Millisecond)
	run.StartedAt = began
	run.Steps = append(run.Steps,
		steps.Step{Kind: steps.Approval, Name: "pay", At: began, Took: 50 * time.Minute, Answer: "allowed"},
		steps.Step{Kind: steps.Approval, Name: "pay", At: began.Add(10 * time.Minute), Took: 45 * time.Minute, Answer: "allowed"})
	storetest.Commit(t, s, run)
	storetest.Turn(t, s, storetest.Chat, 2)
	c, err := s.Active(t.Context(), storetest.Chat)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := New(s).Trace(t.Context(), TraceQuery{Conversation: c.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range trace.Models {
		if m.Model == "gpt" && (m.Took < 5*time.Minute || m.Took > 30*time.Minute) {
			t.Errorf("the model took %s of an hour, 55 minutes of which were waited", m.Took)
		}
	}
}

func TestATraceIsReadInPages(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const runs = 7
	for id := range runs {
		storetest.Turn(t, s, storetest.Chat, id)
	}
	c, err := s.Active(t.Context(), storetest.Chat)
	if err != nil {
		t.Fatal(err)
	}
	var seen []int64
	for before, older := int64(0), true; older; {
		page, err := New(s).Trace(t.Context(), TraceQuery{Conversation: c.ID, Before: before, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		for i := len(page.Runs) - 1; i >= 0; i-- {
			seen = append(seen, page.Runs[i].ID)
		}
		before, older = page.Runs[0].ID, page.Older
	}
	if diff := cmp.Diff([]int64{7, 6, 5, 4, 3, 2, 1}, seen); diff != "" {
		t.Error(diff)
	}
}

// A deleted conversation has no trace.
func TestADeletedConversationHasNoTrace(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "what time is it?"))
	storetest.Commit(t, s, worked(s, storetest.Begin(t, s, storetest.Chat, 1000)))
	c, err := s.Active(t.Context(), storetest.Chat)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), storetest.Chat, c.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := New(s).Trace(t.Context(), TraceQuery{Conversation: c.ID}); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("the trace: %v", err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := storetest.Count(t, s, `SELECT count(*) FROM runs WHERE steps IS NOT NULL`); n != 0 {
		t.Errorf("the steps of %d runs are left", n)
	}
}

// A trace has the messages of the runs that it shows, and no others.
func TestMessagesAreReadByTheirRuns(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for n := 1; n <= 5; n++ {
		storetest.Turn(t, s, storetest.Chat, n)
	}
	c, err := s.Active(t.Context(), storetest.Chat)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := New(s).Trace(t.Context(), TraceQuery{Conversation: c.ID, Before: 5, Limit: 2})
	if err != nil || len(trace.Runs) != 2 {
		t.Fatalf("%+v, %v", trace.Runs, err)
	}
	found, err := New(s).Messages(t.Context(), c.ID, trace.Runs)
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	if list := found[4]; len(list) != 2 || list[0].Content != "question 4" || list[1].Content != "answer 4" {
		t.Errorf("%+v", list)
	}
}
