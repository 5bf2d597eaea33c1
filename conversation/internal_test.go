package conversation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// internals are internal messages of every role. They have the words of the
// talk, the tool of the talk, and the ids of its calls.
func internals() []Message {
	list := []Message{
		{Role: RoleUser, Content: "internal: which pears for the mill?"},
		{Role: RoleAssistant, Content: "internal: pears", ToolCalls: []ToolCall{{ID: "c1", Name: "shop", Arguments: `{"internal":true}`}}},
		{Role: RoleTool, Content: "internal: pear 9.99", ToolCallID: "c1", ToolName: "shop"},
		{Role: RoleAssistant, Content: "internal: buy pears, xylophone"},
		{Role: RoleSystem, Content: "internal: the pears may be elsewhere"},
		{Role: RoleUser, Content: "internal: again?"},
	}
	for i := range list {
		list[i].Internal, list[i].Tokens = true, 1000
	}
	return list
}

// scattered puts internal messages before, between and behind those of a run.
func scattered(messages []Message) []Message {
	list := internals()
	for _, m := range messages {
		list = append(append(list, m), internals()...)
	}
	return list
}

// read is all that people, the model and its tools are given of a talk. Where
// something stands in the archive is no part of it.
type read struct {
	Conversation     []string // title and state
	Windows, Pages   [][]string
	Turns, Found     []string
	Openings, Tools  []string
	Stretch, Written []string
}

func readAll(t *testing.T, s *Store, key Key) (r read) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	chores(t, s)
	c, err := s.Active(t.Context(), key)
	must(err)
	r.Conversation = []string{c.Title, fmt.Sprintf("%+v", c.State)}
	for _, budget := range []int{1, 30, 75, 10_000} {
		history, _, err := s.tail(t.Context(), c.row, Window{}, math.MaxInt64, budget)
		must(err)
		r.Windows = append(r.Windows, texts(history))
	}
	for skip := range 4 {
		page, err := s.Messages(t.Context(), MessageQuery{Conversation: c.ID, SkipTurns: skip, Turns: 2})
		must(err)
		r.Pages = append(r.Pages, append(texts(page.Messages), fmt.Sprint(page.More)))
	}
	r.Turns, err = ReadTurns(t.Context(), s, key, c.ID, 2, 100)
	must(err)
	for _, words := range []string{"pears", "pears mill nowhere", `"which pears"`, "xylo", "internal"} {
		hits, err := Find(t.Context(), s, key, words, 100)
		must(err)
		for _, h := range hits {
			r.Found = append(r.Found, fmt.Sprint(words, ": ", h.Turn, h.Text))
		}
	}
	r.Openings, err = ReadOverview(t.Context(), s, key, c.ID, 3)
	must(err)
	r.Tools, err = ReadToolUses(t.Context(), s, key, c.ID, "shop", 100)
	must(err)
	stretch, err := ReadStretch(t.Context(), s, c.ID, c.Messages+1, 50)
	must(err)
	r.Stretch = texts(stretch)
	from, older, err := Newest(t.Context(), s, c, 200)
	must(err)
	_, _, seen, err := ReadTranscript(t.Context(), s, Transcript{Conversation: c.ID, From: from, Through: c.Messages})
	must(err)
	for record, err := range seen {
		must(err)
		r.Written = append(r.Written, record.Content)
	}
	r.Written = append(r.Written, fmt.Sprint(older, " before"))
	return r
}

// Internal messages are in the archive and disturb nothing: a talk with them
// reads, counts, searches, is summed up, taken back and answered anew as one
// without them, for people and for the model.
func TestInternalMessagesAreNoPartOfTheTalk(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	const plain, noted = Key("cli:plain"), Key("cli:noted")
	counted := func(messages ...Message) []Message {
		for i := range messages {
			messages[i].Tokens = 10
		}
		return messages
	}
	both := func(run func(key Key, within func([]Message) []Message)) {
		run(plain, slices.Clone[[]Message])
		run(noted, scattered)
	}
	compare := func(when string) {
		t.Helper()
		want := readAll(t, s, plain)
		if diff := cmp.Diff(want, readAll(t, s, noted)); diff != "" {
			t.Fatalf("%s (-without +with internal messages):\n%s", when, diff)
		}
		if strings.Contains(fmt.Sprint(want), "internal") {
			t.Fatalf("%s: %+v", when, want)
		}
	}
	for n := range 12 {
		both(func(key Key, within func([]Message) []Message) {
			told(t, s, key, within(counted(user(fmt.Sprint("which pears are ripe on day ", n, "?")),
				Message{Role: RoleAssistant, ToolCalls: []ToolCall{{ID: "c1", Name: "shop", Arguments: fmt.Sprint(n)}}},
				Message{Role: RoleTool, Content: fmt.Sprint("pear ", n), ToolCallID: "c1", ToolName: "shop"},
				assistant(fmt.Sprint("the pears of the mill ", n, ", by the xylophonist"))))...)
			told(t, s, key, within(counted(user("one without an answer")))...)
		})
		compare(fmt.Sprint("exchange ", n))
	}
	change := func(effect func(Snapshot) Effect, messages ...Message) {
		both(func(key Key, within func([]Message) []Message) {
			mustAccept(t, s, say(key, int(s.now().UnixNano()), "?"))
			turn := mustBegin(t, s, key, 10_000)
			run := answered(key, turn, "")
			run.Messages, run.Effect = messages, effect(turn)
			if len(messages) > 0 {
				run.Messages = within(counted(messages...))
			}
			mustCommit(t, s, run)
		})
	}
	last := func(turn Snapshot) Message { return turn.History[len(turn.History)-1] }
	change(func(turn Snapshot) Effect { return Effect{Undo: last(turn).Seq} })
	compare("taken back")
	told(t, s, plain, counted(user("more pears?"), assistant("none"))...)
	told(t, s, noted, scattered(counted(user("more pears?"), assistant("none")))...)
	change(func(turn Snapshot) Effect { return Effect{Replace: turn.History[len(turn.History)-2].Seq} }, user("[edited: more plums?]"), assistant("some plums"))
	compare("answered anew")
	both(func(key Key, _ func([]Message) []Message) {
		c, err := s.Active(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if stored, err := Summarize(t.Context(), s, c.ID, c.Messages+1, 50, "pears were asked for", 4); !stored || err != nil {
			t.Fatal(stored, err)
		}
	})
	compare("summed up")
	c, err := s.Active(t.Context(), noted)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for r, err := range s.AllMessages(t.Context(), MessageQuery{Conversation: c.ID, View: ViewAll}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Internal != strings.HasPrefix(r.Content, "internal: "), r.Internal && (!r.Hidden() || r.State != ""):
			t.Fatalf("the archive holds %+v", r)
		case r.Internal:
			kept++
		}
	}
	if want := len(internals()) * (12*7 + 3 + 3); kept != want {
		t.Errorf("the archive holds %d internal messages of %d", kept, want)
	}
	if got, err := Find(t.Context(), s, "", "internal elsewhere", 1); err != nil || len(got) != 1 {
		t.Errorf("the operator finds %+v, %v", got, err)
	}
}
