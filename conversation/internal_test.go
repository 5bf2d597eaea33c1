package conversation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/search"
	"parley/conversation/storetest"
	"parley/conversation/summary"
	"parley/conversation/transcript"
)

// internals returns internal messages of every role, with the words, the tool and the call ids of the
// ordinary messages.
func internals() []conversation.Message {
	list := []conversation.Message{
		{Role: conversation.RoleUser, Content: "internal: which pears for the mill?"},
		{Role: conversation.RoleAssistant, Content: "internal: pears", ToolCalls: []conversation.ToolCall{{ID: "c1", Name: "shop", Arguments: `{"internal":true}`}}},
		{Role: conversation.RoleTool, Content: "internal: pear 9.99", ToolCallID: "c1", ToolName: "shop"},
		{Role: conversation.RoleAssistant, Content: "internal: buy pears, xylophone"},
		{Role: conversation.RoleSystem, Content: "internal: the pears may be elsewhere"},
		{Role: conversation.RoleUser, Content: "internal: again?"},
	}
	for i := range list {
		list[i].Internal, list[i].Tokens = true, 1000
	}
	return list
}

// scattered puts internal messages before, between and after those of a run.
func scattered(messages []conversation.Message) []conversation.Message {
	list := internals()
	for _, m := range messages {
		list = append(append(list, m), internals()...)
	}
	return list
}

// read is everything that people, the model and its tools see of a conversation, without positions in the
// archive.
type read struct {
	Conversation     []string // title and state
	Windows, Pages   [][]string
	Turns, Found     []string
	Openings, Tools  []string
	Stretch, Written []string
}

func readAll(t *testing.T, s *conversation.Store, key conversation.Key) (r read) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	storetest.Chores(t, s)
	c, err := s.Active(t.Context(), key)
	must(err)
	r.Conversation = []string{c.Title, fmt.Sprintf("%+v", c.State)}
	for _, budget := range []int{1, 30, 75, 10_000} {
		snapshot, err := s.Peek(t.Context(), key, budget)
		must(err)
		r.Windows = append(r.Windows, storetest.Texts(snapshot.History))
	}
	for skip := range 4 {
		page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID, SkipTurns: skip, Turns: 2})
		must(err)
		r.Pages = append(r.Pages, append(storetest.Texts(page.Messages), fmt.Sprint(page.More)))
	}
	found, err := search.New(s).Turns(t.Context(), key, c.ID, 2, 100)
	must(err)
	r.Turns = textsOfTurns(found)
	for _, words := range []string{"pears", "pears mill nowhere", `"which pears"`, "xylo", "internal"} {
		hits, err := search.New(s).Find(t.Context(), search.Query{Key: key, Words: words, Limit: 100})
		must(err)
		for _, h := range hits {
			r.Found = append(r.Found, fmt.Sprint(words, ": ", h.Turn, h.Snippet.Mark("[", "]")))
		}
	}
	overview, err := search.New(s).Overview(t.Context(), key, c.ID, 3)
	must(err)
	r.Openings = append([]string{fmt.Sprint(overview.Turns, " turns, ", overview.Summary.Content)}, textsOfTurns(overview.Openings)...)
	uses, err := search.New(s).ToolUses(t.Context(), key, c.ID, search.ToolQuery{Tool: "shop", Limit: 100})
	must(err)
	for _, u := range uses {
		r.Tools = append(r.Tools, fmt.Sprint(u.Turn, u.Call, u.Result.Content))
	}
	stretch, err := summary.New(s).Stretch(t.Context(), c.ID, c.Messages+1, 50)
	must(err)
	r.Stretch = storetest.Texts(stretch.Messages)
	from, older, err := transcript.Newest(t.Context(), s, c, 200)
	must(err)
	_, _, seen, err := transcript.Read(t.Context(), s, conversation.Transcript{Conversation: c.ID, From: from, Through: c.Messages})
	must(err)
	for record, err := range seen {
		must(err)
		r.Written = append(r.Written, record.Content)
	}
	r.Written = append(r.Written, fmt.Sprint(older, " before"))
	return r
}

func textsOfTurns(turns []search.Turn) (list []string) {
	for _, turn := range turns {
		list = append(list, fmt.Sprint(turn.Number, storetest.Texts(turn.Messages)))
	}
	return list
}

// twins are two sessions with the same conversation, once without internal messages (cli:plain) and once
// with them (cli:noted).
type twins struct {
	t *testing.T
	s *conversation.Store
}

const (
	plainTwin = conversation.Key("cli:plain")
	notedTwin = conversation.Key("cli:noted")
)

// both does something in both sessions. within returns the messages of a run, in the noted session with
// internal messages around them.
func (w twins) both(do func(key conversation.Key, within func([]conversation.Message) []conversation.Message)) {
	do(plainTwin, slices.Clone[[]conversation.Message])
	do(notedTwin, scattered)
}

// tell adds messages of 10 tokens each to both sessions.
func (w twins) tell(messages ...conversation.Message) {
	w.t.Helper()
	w.both(func(key conversation.Key, within func([]conversation.Message) []conversation.Message) {
		storetest.Tell(w.t, w.s, key, within(ofTenTokens(messages))...)
	})
}

// change commits a run with an effect, such as that of /undo, and messages of 10 tokens each in both
// sessions.
func (w twins) change(effect func(conversation.Snapshot) conversation.Effect, messages ...conversation.Message) {
	w.t.Helper()
	w.both(func(key conversation.Key, within func([]conversation.Message) []conversation.Message) {
		storetest.Accept(w.t, w.s, storetest.Say(key, int(w.s.Now().UnixNano()), "?"))
		turn := storetest.Begin(w.t, w.s, key, 10_000)
		run := storetest.Answered(key, turn, "")
		run.Messages, run.Effect = messages, effect(turn)
		if len(messages) > 0 {
			run.Messages = within(ofTenTokens(messages))
		}
		storetest.Commit(w.t, w.s, run)
	})
}

// summarize stores a summary of all messages in both sessions.
func (w twins) summarize(text string) {
	w.t.Helper()
	w.both(func(key conversation.Key, _ func([]conversation.Message) []conversation.Message) {
		c, err := w.s.Active(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		stretch, err := summary.New(w.s).Stretch(w.t.Context(), c.ID, c.Messages+1, 50)
		if err != nil {
			w.t.Fatal(err)
		}
		if stored, err := summary.New(w.s).Add(w.t.Context(), stretch, text, 4); !stored || err != nil {
			w.t.Fatal(stored, err)
		}
	})
}

// compare fails the test if the sessions read differently, or an internal message is seen in one.
func (w twins) compare(when string) {
	w.t.Helper()
	want := readAll(w.t, w.s, plainTwin)
	if diff := cmp.Diff(want, readAll(w.t, w.s, notedTwin)); diff != "" {
		w.t.Fatalf("%s (-without +with internal messages):\n%s", when, diff)
	}
	if strings.Contains(fmt.Sprint(want), "internal") {
		w.t.Fatalf("%s: %+v", when, want)
	}
}

// ofTenTokens returns a copy of messages with 10 tokens each.
func ofTenTokens(messages []conversation.Message) []conversation.Message {
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].Tokens = 10
	}
	return messages
}

// Internal messages are only in the archive: for people and the model, a conversation with them is read,
// counted, searched, summarized, undone and retried like one without them.
func TestInternalMessagesAppearOnlyInTheArchive(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	w := twins{t, s}
	for n := range 12 {
		w.tell(storetest.User(fmt.Sprint("which pears are ripe on day ", n, "?")),
			conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "c1", Name: "shop", Arguments: fmt.Sprint(n)}}},
			conversation.Message{Role: conversation.RoleTool, Content: fmt.Sprint("pear ", n), ToolCallID: "c1", ToolName: "shop"},
			storetest.Assistant(fmt.Sprint("the pears of the mill ", n, ", by the xylophonist")))
		w.tell(storetest.User("one without an answer"))
		w.compare(fmt.Sprint("exchange ", n))
	}
	w.change(func(turn conversation.Snapshot) conversation.Effect {
		return conversation.Effect{Undo: turn.History[len(turn.History)-1].Seq}
	})
	w.compare("taken back")
	w.tell(storetest.User("more pears?"), storetest.Assistant("none"))
	w.change(func(turn conversation.Snapshot) conversation.Effect {
		return conversation.Effect{Replace: turn.History[len(turn.History)-2].Seq}
	}, storetest.User("[edited: more plums?]"), storetest.Assistant("some plums"))
	w.compare("answered anew")
	w.summarize("pears were asked for")
	w.compare("summed up")

	c, err := s.Active(t.Context(), notedTwin)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for r, err := range s.AllMessages(t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
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
	if got, err := search.New(s).Find(t.Context(), search.Query{Key: "", Words: "internal elsewhere", Limit: 1}); err != nil || len(got) != 1 {
		t.Errorf("the operator finds %+v, %v", got, err)
	}
}
