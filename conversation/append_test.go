package conversation_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/search"
	"parley/conversation/storetest"
)

const task = conversation.Key("api:task-7")

func mustAppend(t testing.TB, s *conversation.Store, sourceID string, messages ...conversation.Message) conversation.Committed {
	t.Helper()
	done, err := s.Append(t.Context(), task, sourceID, messages...)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Messages that a program appends are in the assistant's window days later, and in the conversation's
// totals.
func TestAppendedMessagesArePartOfTheConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	done := mustAppend(t, s, "",
		conversation.Message{Role: conversation.RoleUser, Content: "Build the bridge.", Tokens: 7},
		conversation.Message{Role: conversation.RoleAssistant, Content: "I look at the plans.", ToolCalls: []conversation.ToolCall{{ID: "c1", Name: "read", Arguments: `{}`}}, Tokens: 8},
		conversation.Message{Role: conversation.RoleTool, ToolCallID: "c1", ToolName: "read", Content: "two arches", Tokens: 9},
		conversation.Message{Role: conversation.RoleAssistant, Content: "Done.", Tokens: 3, Metadata: `{"agent": "builder", "iteration": 2}`})
	if c := done.Conversation; c.Messages != 4 || c.Tokens != 27 || c.State.Turns != 1 || c.Key != task {
		t.Errorf("the conversation has %+v", c)
	}
	storetest.Accept(t, s, storetest.Say(task, 1, "Does it stand?"))
	turn := storetest.Begin(t, s, task, 1000)
	if diff := cmp.Diff([]string{"Build the bridge.", "I look at the plans.", "two arches", "Done."}, storetest.Texts(turn.History)); diff != "" {
		t.Errorf("the window: %s", diff)
	}
	if got := turn.History[3].Metadata; got != `{"agent":"builder","iteration":2}` {
		t.Errorf("metadata reads %s", got)
	}
	storetest.Commit(t, s, storetest.Answered(task, turn, "It does."))
	if hits, err := search.New(s).Find(t.Context(), search.Query{Key: task, Words: "arches", Limit: 5}); err != nil || len(hits) != 1 || hits[0].Seq != 3 {
		t.Errorf("a search finds %+v, %v", hits, err)
	}
}

// A message that a program appends during a run is not lost, and does not separate the answer from its
// question.
func TestMessagesAppendedDuringARunKeepTheOrder(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(task, 1, "question"))
	run := storetest.Answered(task, storetest.Begin(t, s, task, 1000), "answer")
	mustAppend(t, s, "", conversation.Message{Role: conversation.RoleAssistant, Content: "note", Tokens: 5})
	storetest.Commit(t, s, run)
	mustAppend(t, s, "", conversation.Message{Role: conversation.RoleAssistant, Content: "another", Tokens: 5})
	c, err := s.Active(t.Context(), task)
	if err != nil || c.Messages != 4 || c.Tokens != 30 {
		t.Fatalf("the conversation has %d messages of %d tokens, %v", c.Messages, c.Tokens, err)
	}
	var got []string
	for r, err := range s.AllMessages(t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
		if err != nil || r.Seq != int64(len(got)+1) {
			t.Fatalf("seq %d, %v", r.Seq, err)
		}
		got = append(got, r.Content)
	}
	if diff := cmp.Diff([]string{"note", "question", "answer", "another"}, got); diff != "" {
		t.Error(diff)
	}
}

// When many programs append during runs, every message is stored once, and those of one Append are
// consecutive.
func TestConcurrentAppendsStayTogether(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var writing sync.WaitGroup
	for w := range 8 {
		writing.Go(func() {
			for i := range 10 {
				id := fmt.Sprintf("%d/%d", w, i)
				for range 2 { // as after a lost answer
					_, err := s.Append(t.Context(), task, id,
						conversation.Message{Role: conversation.RoleUser, Content: id, Tokens: 1}, conversation.Message{Role: conversation.RoleAssistant, Content: id, Tokens: 1})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writing.Go(func() {
		for i := range 10 {
			storetest.Turn(t, s, task, i)
		}
	})
	writing.Wait()
	c, _ := s.Active(t.Context(), task)
	if c.Messages != 2*80+2*10 || c.Tokens != 2*80+20*10 || c.State.Turns != 90 {
		t.Errorf("%d messages of %d tokens in %d turns", c.Messages, c.Tokens, c.State.Turns)
	}
	list := slices.Collect(func(yield func(string) bool) {
		for r := range s.AllMessages(t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
			if !yield(r.Content) {
				return
			}
		}
	})
	for i := 0; i < len(list); i += 2 {
		if list[i] != list[i+1] && !strings.HasPrefix(list[i], "question") {
			t.Errorf("%q is followed by %q", list[i], list[i+1])
		}
	}
}

// A program that got no answer repeats its request, also after a restart of the gateway.
func TestARepeatedAppendGivesTheFirstResult(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	note := conversation.Message{Role: conversation.RoleAssistant, Content: "note", Tokens: 5, Metadata: `{"step":1}`}
	first := mustAppend(t, s, "key-1", note)
	mustAppend(t, s, "key-2", note)
	s = storetest.Open(t, s.Path())
	again := mustAppend(t, s, "key-1", note)
	if !again.Repeated || first.Repeated {
		t.Error("the result does not say that the request was repeated")
	}
	if diff := cmp.Diff(first.Messages, again.Messages, cmp.AllowUnexported(media.Image{})); diff != "" || again.Conversation.Messages != 2 {
		t.Errorf("%d messages; %s", again.Conversation.Messages, diff)
	}
	note.Content = "other"
	if _, err := s.Append(t.Context(), task, "key-1", note); !errors.Is(err, conversation.ErrReused) {
		t.Errorf("another text under the same key gave %v", err)
	}
	if _, err := s.Append(t.Context(), "api:other", "key-1", note); err != nil {
		t.Errorf("the same key in another session: %v", err)
	}
	if _, err := s.Delete(t.Context(), task, ""); err != nil {
		t.Fatal(err)
	}
	note.Content = "note"
	if _, err := s.Append(t.Context(), task, "key-1", note); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("a repeat after the deletion gave %v", err)
	}
}

// Internal messages are not shown in the chat and count as no turn.
func TestInternalMessagesStayInTheArchive(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	done := mustAppend(t, s, "",
		conversation.Message{Role: conversation.RoleSystem, Content: "Answer in rhymes.", Tokens: 5},
		conversation.Message{Role: conversation.RoleUser, Content: "private thought", Internal: true, Tokens: 5})
	mustAppend(t, s, "", conversation.Message{Role: conversation.RoleSystem, Content: "Be short.", Tokens: 3})
	if done.Conversation.State.Turns != 0 {
		t.Errorf("%d turns are counted", done.Conversation.State.Turns)
	}
	storetest.Turn(t, s, task, 1)
	storetest.Accept(t, s, storetest.Say(task, 2, "and?"))
	turn := storetest.Begin(t, s, task, 1000)
	if diff := cmp.Diff([]string{"question 1", "answer 1"}, storetest.Texts(turn.History)); diff != "" {
		t.Errorf("the talk: %s", diff)
	}
	if diff := cmp.Diff([]string{"Answer in rhymes.", "Be short."}, turn.Conversation.State.Instructions); diff != "" {
		t.Errorf("the model is told: %s", diff)
	}
	n := 0
	for r := range s.AllMessages(t.Context(), conversation.MessageQuery{Conversation: turn.Conversation.ID, View: conversation.ViewAll}) {
		if r.Hidden() {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d of the archive's messages are hidden, want 3", n)
	}
}

// Messages that would make the model's list invalid are refused with an explanation, and none of them is
// stored.
func TestInvalidAppendsAreRefused(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	call := conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "c", Name: "f"}}}
	result := conversation.Message{Role: conversation.RoleTool, ToolCallID: "c", Content: "r"}
	hello := conversation.Message{Role: conversation.RoleUser, Content: "hello"}
	with := func(change func(*conversation.Message)) []conversation.Message {
		m := hello
		change(&m)
		return []conversation.Message{hello, m}
	}
	for name, messages := range map[string][]conversation.Message{
		"none":                {},
		"too many":            slices.Repeat([]conversation.Message{hello}, 201),
		"too large":           {{Role: conversation.RoleUser, Content: strings.Repeat("x", 1<<20+1)}},
		"unknown role":        with(func(m *conversation.Message) { m.Role = "developer" }),
		"empty":               with(func(m *conversation.Message) { m.Content = "" }),
		"call without result": {hello, call},
		"result without call": {hello, result},
		"result too late":     {hello, call, hello, result},
		"second result":       {hello, call, result, result},
		"user with calls":     with(func(m *conversation.Message) { m.ToolCalls = call.ToolCalls }),
		"metadata: list":      with(func(m *conversation.Message) { m.Metadata = `[1]` }),
		"metadata: broken":    with(func(m *conversation.Message) { m.Metadata = `{"a":` }),
		"metadata: two":       with(func(m *conversation.Message) { m.Metadata = `{} {}` }),
		"metadata: deep": with(func(m *conversation.Message) {
			m.Metadata = metadata.Object(`{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`)
		}),
		"metadata: large": with(func(m *conversation.Message) {
			m.Metadata = metadata.Object(`{"a":"` + strings.Repeat("x", 16<<10) + `"}`)
		}),
		"long instructions": with(func(m *conversation.Message) {
			m.Role, m.Content = conversation.RoleSystem, strings.Repeat("x", 16<<10+1)
		}),
	} {
		if _, err := s.Append(t.Context(), task, "", messages...); !errors.Is(err, conversation.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := catalog.New(s).Session(t.Context(), task); !errors.Is(err, conversation.ErrNoSession) {
		t.Errorf("something was stored: %v", err)
	}
	mustAppend(t, s, "", hello, call, result)
	internal := result
	internal.Internal = true
	mustAppend(t, s, "", internal) // internal messages may be incomplete
}

// Invalid text is accepted, and made valid before it is stored.
func TestHostileTextIsAppendedAsText(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	done := mustAppend(t, s, "", conversation.Message{Role: conversation.RoleUser, Content: "a\x00b\xff", Metadata: "{\"a\":\"\\u0000\"}"})
	if got := done.Messages[0].Content; got != "a\uFFFDb\uFFFD" {
		t.Errorf("stored as %q", got)
	}
}

// An append that fails on a full disk stores nothing, and can be repeated with its key.
func TestAnAppendThatFailedCanBeRepeated(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	repair := storetest.FailInserts(t, s, "appends", "true")
	note := conversation.Message{Role: conversation.RoleAssistant, Content: "note", At: time.UnixMilli(1)}
	if _, err := s.Append(t.Context(), task, "key", note); err == nil {
		t.Fatal("it did not fail")
	}
	repair()
	if done := mustAppend(t, s, "key", note); done.Repeated || done.Messages[0].Seq != 1 {
		t.Errorf("repeated: %+v", done)
	}
}
