package conversation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/catalog"
	"parley/conversation/state"
	"parley/conversation/storetest"
	"parley/conversation/toolstate"
)

// eventReading configures a store that reads events from appended messages.
var eventReading = conversation.Config{Events: toolstate.New(toolstate.BuiltinNames()).TranscriptEvents}

// called returns a question and the messages of a tool call that answers it.
func called(id, name, arguments, result string) []conversation.Message {
	return []conversation.Message{
		{Role: conversation.RoleUser, Content: "please"},
		{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: id, Name: name, Arguments: arguments}}},
		{Role: conversation.RoleTool, ToolCallID: id, ToolName: name, Content: result},
	}
}

func notes(list []state.Note) (lines []string) {
	for _, n := range list {
		lines = append(lines, fmt.Sprintf("%d in turn %d: %s", n.Number, n.Turn, n.Text))
	}
	return lines
}

// Events are read from appended messages like from a run, each with its turn.
func TestStateIsReadFromAppendedTranscripts(t *testing.T) {
	t.Parallel()
	s := storetest.New(t, eventReading)
	messages := called("a", "session_state", `{"kind":"constraint","text":"no ORM"}`, "Kept.")
	messages = append(messages, called("b", "create_file", `{"path":"main.go"}`, "ok")...)
	messages = append(messages, called("c", "bash", `{"command":"go test","cwd":"/srv/app"}`, "exit status 1")...)
	messages[0].Metadata = `{"model":"gpt-x"}`
	done, err := s.Append(t.Context(), "api:task", "", messages...)
	if err != nil {
		t.Fatal(err)
	}
	state := done.Conversation.State
	if diff := cmp.Diff([]string{"1 in turn 1: no ORM"}, notes(state.Constraints)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"0 in turn 2: main.go"}, notes(state.Files)); diff != "" {
		t.Error(diff)
	}
	if len(state.Failures) != 1 || state.Failures[0].Turn != 3 || state.Failures[0].Text != "$ go test" {
		t.Errorf("%+v", state.Failures)
	}
	if state.Model != "gpt-x" || state.Directory != "/srv/app" {
		t.Errorf("model %q in %q", state.Model, state.Directory)
	}
}

func TestStateIsReadFromImports(t *testing.T) {
	t.Parallel()
	s := storetest.New(t, eventReading)
	im, err := archive.New(s).Import(t.Context(), "cli:room")
	if err != nil {
		t.Fatal(err)
	}
	const id = "01a1fdc0-0000-7000-8000-000000000001"
	c := archive.Imported{ID: id, CreatedAt: time.Now(), UpdatedAt: time.Now(), Messages: called("a", "edit_file", `{"path":"mill.go"}`, "ok")}
	if _, err := im.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := im.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := catalog.New(s).Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0 in turn 1: mill.go"}, notes(found.State.Files)); diff != "" {
		t.Error(diff)
	}
}

// The state counts the rules that it has no room for. They stay in the archive.
func TestStateCountsTheRulesThatItForgets(t *testing.T) {
	t.Parallel()
	s := storetest.New(t, eventReading)
	var c conversation.Conversation
	for i := range 2 {
		var messages []conversation.Message
		for n := range 60 {
			id := fmt.Sprintf("%d-%d", i, n)
			messages = append(messages, called(id, "session_state", `{"kind":"constraint","text":"rule `+id+`"}`, "Kept.")...)
		}
		done, err := s.Append(t.Context(), "api:task", "", messages...)
		if err != nil {
			t.Fatal(err)
		}
		c = done.Conversation
	}
	if n := len(c.State.Constraints); n != state.MaxConstraints || c.State.Forgotten != 20 {
		t.Errorf("%d rules, %d forgotten", n, c.State.Forgotten)
	}
	if first := c.State.Constraints[0]; first.Text != "rule 0-20" || first.Number != 21 {
		t.Errorf("the first is %+v", first)
	}
	kept := 0
	for r, err := range s.AllMessages(t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(r.ToolCalls) > 0 && strings.Contains(r.ToolCalls[0].Arguments, "rule 0-0\"") {
			kept++
		}
	}
	if kept != 1 {
		t.Error("the archive has lost the first rule")
	}
}

// Rules are also carried over when a conversation is archived from outside, and are deleted with the
// conversation that they come from.
func TestRulesAreCarriedByArchiveAndReset(t *testing.T) {
	t.Parallel()
	s := storetest.New(t, conversation.Config{Events: eventReading.Events, Carry: state.Carry{Rules: true}})
	const key = conversation.Key("api:task")
	rule := called("a", "session_state", `{"kind":"constraint","text":"no ORM"}`, "Kept.")
	rules := func() []string {
		t.Helper()
		c, err := s.Active(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return notes(c.State.Constraints)
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hello := conversation.Message{Role: conversation.RoleUser, Content: "hello"}
	must(s.Append(t.Context(), key, "", rule...))
	must(s.Archive(t.Context(), key, ""))
	want := []string{"1 in turn 0: no ORM"}
	if diff := cmp.Diff(want, rules()); diff != "" {
		t.Errorf("after the archiving: %s", diff)
	}
	must(s.Append(t.Context(), key, "", hello))
	if diff := cmp.Diff(want, rules()); diff != "" {
		t.Errorf("in the next conversation: %s", diff)
	}
	must(s.Reset(t.Context(), key, false))
	must(s.Append(t.Context(), key, "", hello))
	if diff := cmp.Diff(want, rules()); diff != "" {
		t.Errorf("after a reset: %s", diff)
	}
	archived, err := s.Archive(t.Context(), key, "")
	must(archived, err)
	must(s.Delete(t.Context(), key, archived.ID))
	if got := rules(); got != nil {
		t.Errorf("after the deletion: %v", got)
	}
}

func TestProgramsCorrectTheState(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const key = conversation.Key("api:task")
	record := conversation.Message{Content: "[state]"}
	correct := func(c state.Correction) (conversation.Conversation, error) {
		return s.Correct(t.Context(), key, c, record)
	}
	if _, err := correct(state.Correction{Rules: []string{"no ORM"}}); !errors.Is(err, conversation.ErrNoSession) {
		t.Errorf("in no session: %v", err)
	}
	if _, err := s.Append(t.Context(), key, "", conversation.Message{Role: conversation.RoleUser, Content: "hello"}); err != nil {
		t.Fatal(err)
	}
	if _, err := correct(state.Correction{Rules: []string{"no ORM", "be short"}, Decisions: []string{"blue"}}); err != nil {
		t.Fatal(err)
	}
	done, err := correct(state.Correction{Strike: []int64{1}, Rules: []string{"be kind"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2 in turn 1: be short", "4 in turn 1: be kind"}, notes(done.State.Constraints)); diff != "" {
		t.Error(diff)
	}
	if done.Messages != 3 {
		t.Errorf("%d messages: the archive lacks a change", done.Messages)
	}
	for _, wrong := range []state.Correction{
		{Strike: []int64{1}},
		{Rules: []string{" "}},
		{Rules: []string{strings.Repeat("x", state.MaxNote+1)}},
		{Rules: many(state.MaxConstraints)},
	} {
		if _, err := correct(wrong); !errors.Is(err, conversation.ErrInvalid) {
			t.Errorf("%.60v: %v", wrong, err)
		}
	}
	if c, err := s.Active(t.Context(), key); err != nil || len(c.State.Constraints) != 2 || c.Messages != 3 {
		t.Errorf("a refused change has changed something: %+v, %v", c, err)
	}
}

func many(n int) (rules []string) {
	for i := range n {
		rules = append(rules, fmt.Sprint("rule ", i))
	}
	return rules
}
