package window

import (
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/state"
	"parley/llm"
	"parley/tools"
)

// A call repeats the previous one up to its note. So it has no note when there is nothing to tell
// beside the messages.
func TestNoteHoldsWhatTheMessagesDoNotShow(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	for _, c := range []struct {
		what  string
		place string
		state state.State
		want  []string
	}{
		{what: "a plain talk", state: state.State{Turns: 7, Model: "small"}},
		{what: "a group", place: "the garden", want: []string{"[This conversation takes place in the garden.]"}},
		{what: "a rule", state: state.State{Turns: 7, Constraints: []state.Note{{Turn: 2, Text: "only metric units"}}},
			want: []string{"[Session state]\nconstraints:\n", "only metric units"}},
		{what: "a working directory", state: state.State{Turns: 7, Directory: "/srv/boat"}, want: []string{"turns: 7\n", "workspace: \"/srv/boat\""}},
	} {
		snapshot := conversation.Snapshot{Place: c.place, Conversation: conversation.Conversation{ID: "0192", State: c.state}}
		asked := []conversation.Message{{Role: conversation.RoleUser, Content: "how long is it?"}}
		list := New(Input{Frame: NewFrame(counter, "Be brief.", &tools.Registry{}), Snapshot: snapshot, Asked: asked, StateTokens: 500}).Counted(4000)
		system, question := list.Messages[0].Content, list.Messages[1]
		if !strings.HasSuffix(system, "[This is the conversation 0192.]") {
			t.Errorf("%s: the system prompt is %q", c.what, system)
		}
		if len(c.want) == 0 && question.Note != "" || strings.Contains(question.Note, "how long") {
			t.Errorf("%s: the note is %q", c.what, question.Note)
		}
		for _, part := range c.want {
			if !strings.Contains(question.Note, part) {
				t.Errorf("%s: the note is %q, without %q", c.what, question.Note, part)
			}
		}
	}
}

// What an earlier note says and still holds is not repeated while the model is shown that note, and
// what no longer holds is taken back.
func TestNoteIsNotRepeatedWhileItIsShown(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	rule := state.State{Constraints: []state.Note{{Turn: 1, Text: "only metric units", Number: 1}}, Numbered: 1}
	file := rule
	file.Files = []state.Note{{Text: "boat.go", Turn: 1}}
	told := New(Input{Frame: NewFrame(counter, "", &tools.Registry{}), StateTokens: 500, Snapshot: conversation.Snapshot{
		Place: "the garden", Conversation: conversation.Conversation{State: rule},
	}}).Counted(4000).Note
	if told.Place != "the garden" || !strings.Contains(told.State, "metric") {
		t.Fatalf("the first note is %+v", told)
	}
	for _, c := range []struct {
		what     string
		place    string
		state    state.State
		length   int  // tokens of the answer to the question with the note
		cut      bool // the question with the note is too long to be shown whole
		want     []string
		wantNone bool
	}{
		{what: "nothing has changed", place: "the garden", state: rule, length: 50, wantNone: true},
		{what: "the place has changed", place: "the shed", state: rule, length: 50, want: []string{"in the shed."}},
		{what: "a rule came", place: "the garden", state: state.State{Constraints: append(slices.Clone(rule.Constraints), state.Note{Turn: 2, Text: "no adverbs", Number: 2})}, length: 50,
			want: []string{"metric", "no adverbs"}},
		{what: "the rule was struck", place: "the garden", length: 50, wantNone: true},
		{what: "a file came", place: "the garden", state: file, length: 50, want: []string{"metric", "boat.go"}},
		{what: "it was long ago", place: "the garden", state: rule, length: noteReach + 1, want: []string{"in the garden.", "metric"}},
		{what: "it is not shown", place: "the garden", state: rule, length: 50, cut: true, want: []string{"in the garden.", "metric"}},
	} {
		question := conversation.Message{Seq: 1, Role: conversation.RoleUser, Content: "how long?", Note: told, Tokens: 60}
		if c.cut {
			question.Content = strings.Repeat("so long ", 3000)
			question.Tokens = counter.Message(ToModel(&question))
		}
		snapshot := conversation.Snapshot{
			Place:        c.place,
			Conversation: conversation.Conversation{ID: "0192", State: c.state, Window: conversation.Window{Start: 1, Cut: 5000, Budget: 10_000}},
			History:      []conversation.Message{question, {Seq: 2, Role: conversation.RoleAssistant, Content: "so long", Tokens: c.length}},
		}
		asked := []conversation.Message{{Role: conversation.RoleUser, Content: "and how wide?", Tokens: 10}}
		list := New(Input{Frame: NewFrame(counter, "", &tools.Registry{}), Snapshot: snapshot, Asked: asked, StateTokens: 500}).Counted(20_000)
		if first := list.Messages[1].Note; strings.Contains(first, "garden") == c.cut || strings.Contains(first, "metric") != (!c.cut && len(c.state.Constraints) > 0) {
			t.Errorf("%s: the earlier note is %q", c.what, first)
		}
		note := list.Messages[len(list.Messages)-1].Note
		if c.wantNone && note != "" {
			t.Errorf("%s: it is told again: %q", c.what, note)
		}
		for _, part := range c.want {
			if !strings.Contains(note, part) {
				t.Errorf("%s: the note is %q, without %q", c.what, note, part)
			}
		}
	}
}
