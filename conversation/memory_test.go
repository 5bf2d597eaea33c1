package conversation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"parley/conversation/state"

	"github.com/google/go-cmp/cmp"
)

// commitOne stores an exchange, or what the change makes of its run.
func commitOne(t *testing.T, s *Store, key Key, said string, change func(*Run)) Committed {
	t.Helper()
	in := Inbound{Key: key, SourceID: fmt.Sprint(key, time.Now().UnixNano()), Address: "1", Text: said, At: time.Now()}
	if _, err := s.Accept(t.Context(), nil, in); err != nil {
		t.Fatal(err)
	}
	turn, err := s.Begin(t.Context(), key, 1000)
	if err != nil {
		t.Fatal(err)
	}
	run := Run{
		Key: key, Kind: KindAgent, Status: StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Title: said, Messages: []Message{{Role: RoleUser, Content: said, Tokens: 5}, {Role: RoleAssistant, Content: "re " + said, Tokens: 5}},
	}
	if change != nil {
		change(&run)
	}
	done, err := s.Commit(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// What the store keeps is what the loop's memory says, also when both were
// changed at once.
func TestStateIsStoredWithItsConversation(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	commitOne(t, s, "cli:a", "one", func(r *Run) { r.Events = []state.Event{{Kind: state.Constrained, Text: " no\x00 ORM "}} })
	done := commitOne(t, s, "cli:a", "two", func(r *Run) {
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

// A transcript holds what was said up to the command, and no session's but its own.
func TestTranscriptEndsWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	c := commitOne(t, s, "cli:a", "one", nil).Conversation
	commitOne(t, s, "cli:a", "two", nil)
	commitOne(t, s, "cli:b", "secret", nil)
	read, place, seen, err := ReadTranscript(t.Context(), s, Transcript{Conversation: c.ID, From: 1, Through: 2})
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
	if _, _, _, err := ReadTranscript(t.Context(), s, Transcript{Conversation: "none"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no conversation: %v", err)
	}
}

// Of a conversation that is deleted while its file is made, no half is sent.
func TestTranscriptOfAConversationThatIsDeletedMeanwhileEndsWithAnError(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	c := commitOne(t, s, "cli:a", "one", nil).Conversation
	_, _, seen, err := ReadTranscript(t.Context(), s, Transcript{Conversation: c.ID, From: 1, Through: 2})
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
	if !errors.Is(last, ErrNotFound) {
		t.Fatalf("it ends with %v", last)
	}
}
