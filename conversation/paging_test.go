package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A program that reads a long list page by page gets every entry that was there
// when it began, once, though others are made and used meanwhile.
func TestPagingGivesEverythingOnceWhileMoreIsAdded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		s, clock := mustOpenAged(t)
		said := 0
		use := func(n int) {
			said++
			exchangeNow(t, s, clock, Key(fmt.Sprintf("api:%d", n)), said, "said")
			if random.IntN(3) == 0 {
				clock.pass(1e6)
			}
		}
		for n := range 20 + random.IntN(20) {
			use(n)
		}
		all, _, err := s.Sessions(t.Context(), SessionQuery{Channel: "api"})
		if err != nil {
			t.Fatal(err)
		}
		for _, byAge := range []bool{true, false} {
			made := len(all)
			seen := map[Key]int{}
			conversations := map[string]int{}
			sessionsFrom, conversationsFrom := "", ""
			for page := 0; page == 0 || sessionsFrom != ""; page++ {
				list, next, err := s.Sessions(t.Context(), SessionQuery{Channel: "api", ByAge: byAge, From: sessionsFrom, Limit: 1 + random.IntN(7)})
				if err != nil {
					t.Fatal(err)
				}
				for _, session := range list {
					seen[session.Key]++
				}
				sessionsFrom = next
				use(1000 + int(seed)*100 + page) // a new one
				if byAge {
					use(random.IntN(made)) // moves to the front of the other order
				}
			}
			for page := 0; page == 0 || conversationsFrom != ""; page++ {
				list, next, err := s.Conversations(t.Context(), ConversationQuery{Channel: "api", ByAge: byAge, From: conversationsFrom, Limit: 1 + random.IntN(7)})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range list {
					conversations[c.ID]++
				}
				conversationsFrom = next
				use(2000 + int(seed)*100 + page)
			}
			for _, session := range all {
				if seen[session.Key] != 1 {
					t.Errorf("seed %d, by age %t: %s came %d times", seed, byAge, session.Key, seen[session.Key])
				}
				c, _ := s.Active(t.Context(), session.Key)
				if conversations[c.ID] != 1 {
					t.Errorf("seed %d, by age %t: the conversation of %s came %d times", seed, byAge, session.Key, conversations[c.ID])
				}
			}
		}
	}
}

// Lists are asked for by strangers' words: each is a text like any other, and one
// that is too long is told so.
func TestHostileWordsForListsAreOnlyText(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, task, 1)
	names := []string{`a"b`, `$.x`, `a.b`, `x'); DROP TABLE messages; --`, "tab\there", "日本", "<b>", "%", "[0]"}
	for _, name := range names {
		object, err := json.Marshal(map[string]string{name: `it's "` + name + `"`})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetMetadata(t.Context(), task, Metadata(object)); err != nil {
			t.Fatal(err)
		}
		for filter, want := range map[string]int{`it's "` + name + `"`: 1, "%": 0, "": 0} {
			list, _, err := s.Sessions(t.Context(), SessionQuery{Metadata: Filter{name: filter}})
			if err != nil || len(list) != want {
				t.Errorf("metadata %q with %q: %d sessions, %v", name, filter, len(list), err)
			}
		}
		if list, _, err := s.Sessions(t.Context(), SessionQuery{Metadata: Filter{"other": name}}); err != nil || len(list) != 0 {
			t.Errorf("metadata that nobody has finds %d sessions, %v", len(list), err)
		}
	}
	for _, text := range []string{"%", "_", `\`, `'`, "question%", "q_estion"} {
		if list, _, err := s.Conversations(t.Context(), ConversationQuery{Text: text}); err != nil || len(list) != 0 {
			t.Errorf("the text %q finds %d conversations, %v", text, len(list), err)
		}
	}
	long := strings.Repeat("%", 100_000)
	if _, _, err := s.Conversations(t.Context(), ConversationQuery{Text: long}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a text of 100,000 bytes in a list of conversations: %v", err)
	}
	if _, _, err := s.Sessions(t.Context(), SessionQuery{Text: long}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a text of 100,000 bytes in a list of sessions: %v", err)
	}
}

// The same for the messages of a conversation, backwards and forwards, whatever
// their number.
func TestPagingThroughMessages(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	var want []string
	for i := range 23 {
		want = append(want, fmt.Sprint("note ", i))
		mustAppend(t, s, "", Message{Role: RoleAssistant, Content: want[i]})
	}
	c, _ := s.Active(t.Context(), task)
	for limit := 1; limit < 26; limit++ {
		var back, forth []string
		for before, more := int64(0), true; more; {
			page, err := s.Messages(t.Context(), MessageQuery{Conversation: c.ID, Before: before, Limit: limit})
			if err != nil || len(page.Messages) == 0 {
				t.Fatalf("before %d: %d, %v", before, len(page.Messages), err)
			}
			back = append(texts(page.Messages), back...)
			before, more = page.Messages[0].Seq, page.More
			mustAppend(t, s, "", Message{Role: RoleAssistant, Content: "late", Internal: true})
		}
		for after, more := int64(0), true; more; {
			page, err := s.Messages(t.Context(), MessageQuery{Conversation: c.ID, After: after, Forward: true, Limit: limit})
			if err != nil || len(page.Messages) == 0 {
				t.Fatalf("after %d: %d, %v", after, len(page.Messages), err)
			}
			forth = append(forth, texts(page.Messages)...)
			after, more = page.Messages[len(page.Messages)-1].Seq, page.More
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Fatalf("limit %d, backwards: %s", limit, diff)
		}
		if diff := cmp.Diff(want, forth); diff != "" {
			t.Fatalf("limit %d, forwards: %s", limit, diff)
		}
	}
}

// People see the talk; whoever looks closer sees the tools, and what was answered
// anew, too.
func TestViewsOfAConversation(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	done := mustAppend(t, s, "",
		Message{Role: RoleSystem, Content: "system"},
		Message{Role: RoleUser, Content: "question"},
		Message{Role: RoleAssistant, ToolCalls: []ToolCall{{ID: "c", Name: "f"}}},
		Message{Role: RoleTool, Content: "result", ToolCallID: "c"},
		Message{Role: RoleAssistant, Content: "answer"})
	mustAccept(t, s, say(task, 1, "/retry"))
	turn := mustBegin(t, s, task, 1000)
	again := answered(task, turn, "other answer")
	again.Messages, again.Effect.Replace = again.Messages[1:], 2
	mustCommit(t, s, again)
	for view, want := range map[View][]string{
		ViewPeople: {"question", "other answer"},
		ViewTalk:   {"question", "other answer"},
		ViewAll:    {"system", "question", "", "result", "answer", "other answer"},
	} {
		page, err := s.Messages(t.Context(), MessageQuery{Conversation: done.Conversation.ID, View: view})
		if diff := cmp.Diff(want, texts(page.Messages)); diff != "" || err != nil {
			t.Errorf("%s: %v %s", view, err, diff)
		}
	}
	if page, err := s.Messages(t.Context(), MessageQuery{Conversation: "unknown"}); err != nil || len(page.Messages) != 0 {
		t.Errorf("an unknown conversation: %v, %v", page, err)
	}
}

// A task system finds its sessions, and in them its agents' steps, by what it has
// noted of them; nobody else's match by accident.
func TestMetadataIsFilteredOn(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for key, metadata := range map[Key]Metadata{
		"api:1": `{"agent": "planner", "iteration": 3, "done": true}`,
		"api:2": `{"agent": "planner", "iteration": 30, "done": false}`,
		"api:3": `{"agent": "\"planner\"", "nested": {"agent": "planner"}}`,
		"api:4": "",
	} {
		if err := s.SetMetadata(t.Context(), key, metadata); err != nil {
			t.Fatal(err)
		}
		_, err := s.Append(t.Context(), key, "", Message{Role: RoleUser, Content: string(key), Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		filter Filter
		want   []string
	}{
		{nil, []string{"api:1", "api:2", "api:3", "api:4"}},
		{Filter{"agent": "planner"}, []string{"api:1", "api:2"}},
		{Filter{"agent": "planner", "iteration": "3"}, []string{"api:1"}},
		{Filter{"done": "false"}, []string{"api:2"}},
		{Filter{"done": "1"}, nil},
		{Filter{"agent": `"planner"`}, []string{"api:3"}},
		{Filter{"nested": "planner"}, nil},
		{Filter{"$.agent": "planner"}, nil},
		{Filter{"' OR 1 --": "x"}, nil},
	} {
		sessions, _, err := s.Sessions(t.Context(), SessionQuery{Metadata: tt.filter})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, session := range sessions {
			found[string(session.Key)] = true
		}
		want := map[string]bool{}
		for _, key := range tt.want {
			want[key] = true
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("sessions with %v: %s", tt.filter, diff)
		}
		for n := range 4 {
			key := fmt.Sprintf("api:%d", n+1)
			c, _ := s.Active(t.Context(), Key(key))
			page, err := s.Messages(t.Context(), MessageQuery{Conversation: c.ID, Metadata: tt.filter})
			if err != nil || (len(page.Messages) == 1) != want[key] {
				t.Errorf("messages of %s with %v: %d, %v", key, tt.filter, len(page.Messages), err)
			}
		}
	}
}

// The operator looks for what one person has said, in private chats and groups,
// and finds it by the conversation's name as well.
func TestConversationsAreFoundByWhoAndWhat(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for n, who := range []string{"Ada", "Bob", "Ada"} {
		key := Key(fmt.Sprintf("telegram:chat:%d", n))
		in := say(key, n, "hello")
		in.Sender = Sender{ID: map[string]string{"Ada": "17", "Bob": "23"}[who], Name: who}
		mustAccept(t, s, in)
		run := answered(key, mustBegin(t, s, key, 1000), "hello")
		run.Title = fmt.Sprintf("100%% talk %d", n)
		mustCommit(t, s, run)
	}
	if _, err := s.Archive(t.Context(), "telegram:chat:2", ""); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		query ConversationQuery
		want  []Key
	}{
		{ConversationQuery{ByAge: true}, []Key{"telegram:chat:2", "telegram:chat:1", "telegram:chat:0"}},
		{ConversationQuery{ByAge: true, User: "17"}, []Key{"telegram:chat:2", "telegram:chat:0"}},
		{ConversationQuery{User: "bob"}, []Key{"telegram:chat:1"}},
		{ConversationQuery{User: "ada", Active: true}, []Key{"telegram:chat:0"}},
		{ConversationQuery{Archived: true}, []Key{"telegram:chat:2"}},
		{ConversationQuery{Text: "TALK 1"}, []Key{"telegram:chat:1"}},
		{ConversationQuery{Key: "telegram:chat:1"}, []Key{"telegram:chat:1"}},
		{ConversationQuery{Key: "telegram:chat:9"}, nil},
		{ConversationQuery{Channel: "discord"}, nil},
	} {
		list, _, err := s.Conversations(t.Context(), tt.query)
		var got []Key
		for _, c := range list {
			got = append(got, c.Key)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", tt.query, err, diff)
		}
	}
	sessions, _, err := s.Sessions(t.Context(), SessionQuery{User: "Bob"})
	if diff := cmp.Diff([]string{"telegram:chat:1"}, keys(sessions)); diff != "" || err != nil {
		t.Errorf("Bob's sessions: %v %s", err, diff)
	}
	if _, err := s.Delete(t.Context(), "telegram:chat:1", ""); err != nil {
		t.Fatal(err)
	}
	chores(t, s)
	if n := count(t, s, "participants"); n != 2 {
		t.Errorf("%d people are remembered of two conversations", n)
	}
}

// A place in a list that was made up is refused in words.
func TestAMadeUpPlaceInAListIsRefused(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for n := range 3 {
		exchange(t, s, Key(fmt.Sprintf("api:%d", n)), 1)
	}
	_, next, err := s.Sessions(t.Context(), SessionQuery{Limit: 1})
	if err != nil || next == "" {
		t.Fatal(next, err)
	}
	for _, q := range []SessionQuery{{From: "x"}, {From: "!"}, {From: next, ByAge: true}, {From: next + "A"}, {From: next + "\x00"}} {
		if _, _, err := s.Sessions(t.Context(), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", q.From, err)
		}
		if _, _, err := s.Conversations(t.Context(), ConversationQuery{From: q.From, ByAge: q.ByAge}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", q.From, err)
		}
	}
}
