package conversation

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// worked is a run that called a tool, and a model twice.
func worked(s *Store, turn Turn) Run {
	run := answered(turn.Waiting[0].Key, turn, "half past nine")
	run.StartedAt = s.now().Add(-3 * time.Second).Truncate(time.Millisecond)
	run.Model, run.Rounds, run.Prompt, run.Completion = "gpt", 2, 250, 25
	run.Steps = []Step{
		{Kind: StepModel, Name: "gpt", At: run.StartedAt, Took: time.Second, FirstByte: 300 * time.Millisecond, Prompt: 100, Completion: 20,
			Shown: 1, Left: 7, Window: 90},
		{Kind: StepTool, Name: "clock", At: run.StartedAt.Add(time.Second), Took: 20 * time.Millisecond, CallID: "call_1", Error: "it has stopped"},
		{Kind: StepModel, Name: "gpt-mini", At: run.StartedAt.Add(1020 * time.Millisecond), Took: time.Second, Prompt: 150, Completion: 5, Error: "cut"},
	}
	return run
}

func TestATraceShowsWhatEveryRunDid(t *testing.T) {
	s := mustOpen(t)
	asked := say(chat, 1, "what time is it?")
	asked.Sender = Sender{ID: "42", Name: "Ada"}
	mustAccept(t, s, asked)
	run := worked(s, mustBegin(t, s, chat, 1000))
	mustCommit(t, s, run)
	mustAccept(t, s, say(chat, 2, "and now?"))
	failed := answered(chat, mustBegin(t, s, chat, 1000), "")
	failed.Status, failed.Error, failed.Messages = StatusFailed, "no answer", failed.Messages[:1]
	mustCommit(t, s, failed)

	c, err := s.Active(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := s.Trace(t.Context(), c.ID, 0, 0)
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
	if second.Status != StatusFailed || second.Error != "no answer" || len(second.Steps) != 0 {
		t.Errorf("%+v", second)
	}
	if diff := cmp.Diff([]RoleTotals{{Role: RoleAssistant, Messages: 1, Tokens: 10}, {Role: RoleUser, Messages: 2, Tokens: 20}}, trace.Roles); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]ToolTotals{{Name: "clock", Calls: 1, Failed: 1, Took: 20 * time.Millisecond}}, trace.Tools); diff != "" {
		t.Error(diff)
	}
	if n := len(trace.Models); n != 2 || trace.Models[0].Failed != 1 || trace.Models[1].Prompt != 250 || trace.Models[1].Messages != 2 {
		t.Errorf("%+v", trace.Models)
	}
}

func TestATraceIsReadInPages(t *testing.T) {
	s := mustOpen(t)
	const runs = 7
	for id := range runs {
		exchange(t, s, chat, id)
	}
	c, err := s.Active(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	var seen []int64
	for before, older := int64(0), true; older; {
		page, err := s.Trace(t.Context(), c.ID, before, 3)
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

// What a person has deleted is not found in a trace, nor what was told of it.
func TestADeletedConversationHasNoTrace(t *testing.T) {
	s := mustOpen(t)
	mustAccept(t, s, say(chat, 1, "what time is it?"))
	mustCommit(t, s, worked(s, mustBegin(t, s, chat, 1000)))
	c, err := s.Active(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), chat, c.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Trace(t.Context(), c.ID, 0, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("the trace: %v", err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, `runs WHERE steps IS NOT NULL`); n != 0 {
		t.Errorf("the steps of %d runs are left", n)
	}
}
