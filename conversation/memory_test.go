package conversation_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/state"
	"parley/conversation/storetest"
	"parley/conversation/transcript"
)

// The stored state equals the one of the loop's snapshot, also after concurrent changes.
func TestStateIsStoredWithItsConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.CommitTurn(t, s, "cli:a", "one", func(r *conversation.Run) { r.Events = []state.Event{{Kind: state.Constrained, Text: " no\x00 ORM "}} })
	done := storetest.CommitTurn(t, s, "cli:a", "two", func(r *conversation.Run) {
		r.Conversation.Title = "what it was called before somebody named it"
		r.Events = []state.Event{{Kind: state.Failed, Text: "go test", Error: "exit status 1"}, {Kind: state.Touched, Text: "a.go"}, {Kind: state.Touched, Text: "A.go"}}
	})
	stored, err := s.Active(t.Context(), "cli:a")
	if err != nil {
		t.Fatal(err)
	}
	want := state.State{
		Turns: 2, Constraints: []state.Note{{Text: "no\uFFFD ORM", Turn: 1, Number: 1}}, Numbered: 1, Files: []state.Note{{Text: "A.go", Turn: 2}},
		Failures: []state.Failure{{Note: state.Note{Text: "go test", Turn: 2}, Error: "exit status 1"}},
	}
	for where, got := range map[string]state.State{"committed": done.Conversation.State, "stored": stored.State} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", where, diff)
		}
	}
}

// A transcript has the messages up to its command, and those of its own session only.
func TestTranscriptEndsAtItsCommand(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	c := storetest.CommitTurn(t, s, "cli:a", "one", nil).Conversation
	storetest.CommitTurn(t, s, "cli:a", "two", nil)
	storetest.CommitTurn(t, s, "cli:b", "secret", nil)
	read, place, seen, err := transcript.Read(t.Context(), s, conversation.Transcript{Conversation: c.ID, From: 1, Through: 2})
	if err != nil || read.ID != c.ID || place != "" {
		t.Fatalf("%+v, %q, %v", read, place, err)
	}
	var said []string
	for r, err := range seen {
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, r.Content)
	}
	if diff := cmp.Diff([]string{"one", "re one"}, said); diff != "" {
		t.Error(diff)
	}
	if _, _, _, err := transcript.Read(t.Context(), s, conversation.Transcript{Conversation: "none"}); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("of no conversation: %v", err)
	}
}

// If a conversation is deleted while its file is made, no part of it is sent.
func TestTranscriptFailsIfItsConversationIsDeleted(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	c := storetest.CommitTurn(t, s, "cli:a", "one", nil).Conversation
	_, _, seen, err := transcript.Read(t.Context(), s, conversation.Transcript{Conversation: c.ID, From: 1, Through: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), "cli:a", c.ID); err != nil {
		t.Fatal(err)
	}
	var last error
	for r, err := range seen {
		if last = err; err == nil {
			t.Fatalf("it gives %+v", r)
		}
	}
	if !errors.Is(last, conversation.ErrNotFound) {
		t.Fatalf("it ends with %v", last)
	}
}
