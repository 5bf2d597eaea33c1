package catalog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/metadata"
	"parley/conversation/storetest"
)

// task is the session of a program.
const task = conversation.Key("api:task-7")

func keys(sessions []catalog.Session) []string {
	var list []string
	for _, s := range sessions {
		list = append(list, string(s.Key))
	}
	return list
}

// The operator finds a session by a name, a title, a text or its channel. Those that were used last come
// first.
func TestSessionsAreListedAndFiltered(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i, key := range []conversation.Key{"telegram:chat:1", "discord:dm:2", "telegram:chat:3"} {
		in := storetest.Say(key, i, "100% of _everything_")
		in.Place = map[conversation.Key]string{"discord:dm:2": "Zoë's kitchen"}[key]
		storetest.Accept(t, s, in)
		run := storetest.Answered(key, storetest.Begin(t, s, key, 1000), "yes")
		run.Title = map[conversation.Key]string{"telegram:chat:3": "100% wool"}[key]
		storetest.Commit(t, s, run)
	}
	storetest.Accept(t, s, storetest.Say("telegram:chat:4", 9, "waits")) // not answered yet
	if _, err := s.Archive(t.Context(), "telegram:chat:1", ""); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		query catalog.SessionQuery
		want  []string
	}{
		{catalog.SessionQuery{}, []string{"telegram:chat:4", "telegram:chat:3", "discord:dm:2", "telegram:chat:1"}},
		{catalog.SessionQuery{Limit: 2}, []string{"telegram:chat:4", "telegram:chat:3"}},
		{catalog.SessionQuery{Channel: "discord", Limit: math.MaxInt}, []string{"discord:dm:2"}},
		{catalog.SessionQuery{Channel: "discord"}, []string{"discord:dm:2"}},
		{catalog.SessionQuery{Text: "KITCHEN"}, []string{"discord:dm:2"}},
		{catalog.SessionQuery{Text: "100%"}, []string{"telegram:chat:3"}}, // a title; % is no wildcard
		{catalog.SessionQuery{Text: "_"}, nil},
		{catalog.SessionQuery{Archived: true}, []string{"telegram:chat:1"}},
		{catalog.SessionQuery{Active: true}, []string{"telegram:chat:4", "telegram:chat:3", "discord:dm:2"}},
	} {
		list, _, err := catalog.New(s).Sessions(t.Context(), tt.query)
		if diff := cmp.Diff(tt.want, keys(list)); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", tt.query, err, diff)
		}
	}
	got, err := catalog.New(s).Session(t.Context(), "telegram:chat:4")
	if err != nil || got.Waiting != 1 || got.Conversations != 0 || got.Title != "waits" {
		t.Errorf("a session whose first message waits: %+v, %v", got, err)
	}
	if _, err := catalog.New(s).Session(t.Context(), "telegram:chat:99"); !errors.Is(err, conversation.ErrNoSession) {
		t.Errorf("an unknown session: %v", err)
	}
}

// Paging through a list returns every entry from the beginning once, though sessions are added and used
// meanwhile.
func TestPagingReturnsEachEntryOnceWhileMoreAreAdded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		s, clock := storetest.NewAged(t)
		said := 0
		use := func(n int) {
			said++
			storetest.TurnNow(t, s, clock, conversation.Key(fmt.Sprintf("api:%d", n)), said, "said")
			if random.IntN(3) == 0 {
				clock.Pass(1e6)
			}
		}
		for n := range 20 + random.IntN(20) {
			use(n)
		}
		all, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Channel: "api"})
		if err != nil {
			t.Fatal(err)
		}
		for _, byAge := range []bool{true, false} {
			made := len(all)
			seen := map[conversation.Key]int{}
			conversations := map[string]int{}
			sessionsFrom, conversationsFrom := "", ""
			for page := 0; page == 0 || sessionsFrom != ""; page++ {
				list, next, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Channel: "api", ByAge: byAge, From: sessionsFrom, Limit: 1 + random.IntN(7)})
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
				list, next, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Channel: "api", ByAge: byAge, From: conversationsFrom, Limit: 1 + random.IntN(7)})
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

// A deleted session is in no list, even if it had metadata and a pin.
func TestDeletedSessionIsNotListed(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	if err := errors.Join(s.SetMetadata(t.Context(), task, "", `{"state": "open"}`), catalog.New(s).Pin(t.Context(), task, true)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), task, ""); err != nil {
		t.Fatal(err)
	}
	yes := true
	for _, query := range []catalog.SessionQuery{{}, {Pinned: &yes}, {Metadata: metadata.Filter{"state": "open"}}} {
		if list, _, err := catalog.New(s).Sessions(t.Context(), query); err != nil || len(list) != 0 {
			t.Errorf("%+v: still listed: %+v, %v", query, list, err)
		}
	}
}

// A session whose only conversation was deleted is not listed. A program that filters by its metadata
// finds it, like a session that was never used.
func TestClearedSessionWithMetadataIsNotListed(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	const unused = conversation.Key("api:unused")
	if err := errors.Join(s.SetMetadata(t.Context(), task, "", `{"state": "open"}`), s.SetMetadata(t.Context(), unused, "", `{"state": "open"}`)); err != nil {
		t.Fatal(err)
	}
	active, err := s.Active(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), task, active.ID); err != nil {
		t.Fatal(err)
	}
	for want, query := range map[int]catalog.SessionQuery{1: {}, 2: {Metadata: metadata.Filter{"state": "open"}}} {
		if list, _, err := catalog.New(s).Sessions(t.Context(), query); err != nil || len(list) != want {
			t.Errorf("%+v: listed: %+v, %v", query, list, err)
		}
	}
}

// No character of a filter has a meaning for the database.
// Too long ones are refused.
func TestHostileFiltersOfListsAreText(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	names := []string{`a"b`, `$.x`, `a.b`, `x'); DROP TABLE messages; --`, "tab\there", "日本", "<b>", "%", "[0]"}
	for _, name := range names {
		object, err := json.Marshal(map[string]string{name: `it's "` + name + `"`})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetMetadata(t.Context(), task, "", metadata.Object(object)); err != nil {
			t.Fatal(err)
		}
		for filter, want := range map[string]int{`it's "` + name + `"`: 1, "%": 0, "": 0} {
			list, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Metadata: metadata.Filter{name: filter}})
			if err != nil || len(list) != want {
				t.Errorf("metadata %q with %q: %d sessions, %v", name, filter, len(list), err)
			}
		}
		if list, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Metadata: metadata.Filter{"other": name}}); err != nil || len(list) != 0 {
			t.Errorf("metadata that nobody has finds %d sessions, %v", len(list), err)
		}
	}
	for _, text := range []string{"%", "_", `\`, `'`, "question%", "q_estion"} {
		if list, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Text: text}); err != nil || len(list) != 0 {
			t.Errorf("the text %q finds %d conversations, %v", text, len(list), err)
		}
	}
	long := strings.Repeat("%", 100_000)
	if _, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Text: long}); !errors.Is(err, conversation.ErrInvalid) {
		t.Errorf("a text of 100,000 bytes in a list of conversations: %v", err)
	}
	if _, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Text: long}); !errors.Is(err, conversation.ErrInvalid) {
		t.Errorf("a text of 100,000 bytes in a list of sessions: %v", err)
	}
}

// Conversations are found by a person who wrote in them, in private chats and groups, and by their
// titles.
func TestConversationsAreFilteredByPersonAndTitle(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for n, who := range []string{"Ada", "Bob", "Ada"} {
		key := conversation.Key(fmt.Sprintf("telegram:chat:%d", n))
		in := storetest.Say(key, n, "hello")
		in.Sender = conversation.Sender{ID: map[string]string{"Ada": "17", "Bob": "23"}[who], Name: who}
		storetest.Accept(t, s, in)
		run := storetest.Answered(key, storetest.Begin(t, s, key, 1000), "hello")
		run.Title = fmt.Sprintf("100%% talk %d", n)
		storetest.Commit(t, s, run)
	}
	if _, err := s.Archive(t.Context(), "telegram:chat:2", ""); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		query catalog.ConversationQuery
		want  []conversation.Key
	}{
		{catalog.ConversationQuery{ByAge: true}, []conversation.Key{"telegram:chat:2", "telegram:chat:1", "telegram:chat:0"}},
		{catalog.ConversationQuery{ByAge: true, User: "17"}, []conversation.Key{"telegram:chat:2", "telegram:chat:0"}},
		{catalog.ConversationQuery{User: "bob"}, []conversation.Key{"telegram:chat:1"}},
		{catalog.ConversationQuery{User: "ada", Active: true}, []conversation.Key{"telegram:chat:0"}},
		{catalog.ConversationQuery{Archived: true}, []conversation.Key{"telegram:chat:2"}},
		{catalog.ConversationQuery{Text: "TALK 1"}, []conversation.Key{"telegram:chat:1"}},
		{catalog.ConversationQuery{Key: "telegram:chat:1"}, []conversation.Key{"telegram:chat:1"}},
		{catalog.ConversationQuery{Key: "telegram:chat:9"}, nil},
		{catalog.ConversationQuery{Channel: "discord"}, nil},
	} {
		list, _, err := catalog.New(s).Conversations(t.Context(), tt.query)
		var got []conversation.Key
		for _, c := range list {
			got = append(got, c.Key)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", tt.query, err, diff)
		}
	}
	sessions, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{User: "Bob"})
	if diff := cmp.Diff([]string{"telegram:chat:1"}, keys(sessions)); diff != "" || err != nil {
		t.Errorf("Bob's sessions: %v %s", err, diff)
	}
	if _, err := s.Delete(t.Context(), "telegram:chat:1", ""); err != nil {
		t.Fatal(err)
	}
	storetest.Chores(t, s)
	if n := storetest.Count(t, s, "SELECT count(*) FROM participants"); n != 2 {
		t.Errorf("%d people are remembered of two conversations", n)
	}
}

// A page token that no list has returned is refused.
func TestInvalidPageTokenIsRefused(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for n := range 3 {
		storetest.Turn(t, s, conversation.Key(fmt.Sprintf("api:%d", n)), 1)
	}
	_, next, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Limit: 1})
	if err != nil || next == "" {
		t.Fatal(next, err)
	}
	for _, q := range []catalog.SessionQuery{{From: "x"}, {From: "!"}, {From: next, ByAge: true}, {From: next + "A"}, {From: next + "\x00"}} {
		if _, _, err := catalog.New(s).Sessions(t.Context(), q); !errors.Is(err, conversation.ErrInvalid) {
			t.Errorf("%q: %v", q.From, err)
		}
		if _, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{From: q.From, ByAge: q.ByAge}); !errors.Is(err, conversation.ErrInvalid) {
			t.Errorf("%q: %v", q.From, err)
		}
	}
}
