package search

import (
	"slices"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/storetest"
)

func mustFindConversations(t *testing.T, s *conversation.Store, query ConversationQuery) (keys []string, more bool) {
	t.Helper()
	page, more, err := New(s).Conversations(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range page {
		keys = append(keys, string(found.Conversation.Key))
	}
	return keys, more
}

// addTitled stores messages in a conversation with a title.
func addTitled(t *testing.T, s *conversation.Store, key conversation.Key, title string, texts ...string) {
	t.Helper()
	for i, text := range texts {
		m := storetest.User(text)
		if m.At = time.UnixMilli(int64(i)); i%2 == 1 {
			m = storetest.Assistant(text)
		}
		storetest.Tell(t, s, key, m)
	}
	storetest.Exec(t, s, `UPDATE conversations SET title = ? WHERE session_id = (SELECT id FROM sessions WHERE key = ?)`, title, string(key))
}

// Among very many chats with similar names, the one whose name is typed is found first. Every chat can be reached by
// paging.
func TestOneOfManyConversationsIsFound(t *testing.T) {
	t.Parallel()
	const chats = 500
	s := storetest.New(t)
	for n := 1; n <= chats; n += 100 { // rows, since as many commits take seconds
		const count = `WITH RECURSIVE n(i) AS (SELECT CAST(?1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < CAST(?1 AS BIGINT) + 99) INSERT INTO `
		storetest.Exec(t, s, count+`sessions (id, key, channel, created_at) SELECT i + 1000, 'web:' || CAST(i AS TEXT), 'web', 0 FROM n`, n)
		storetest.Exec(t, s, count+`conversations (id, uuid, session_id, title, messages, created_at, updated_at)
			SELECT i + 1000, '00000000-0000-7000-8000-' || CAST(100000000000 + i AS TEXT), i + 1000, 'feta ' || CAST(i AS TEXT), 1, 0, i FROM n`, n)
		storetest.Exec(t, s, count+`messages (conversation_id, seq, run_id, role, content, tokens, created_at)
			SELECT i + 1000, 1, 0, 'user', 'which feta after ' || CAST(i + 1 AS TEXT) || '?', 9, 0 FROM n`, n)
	}
	addTitled(t, s, "telegram:chat:342", "feta 342", "feta 342")
	storetest.Chores(t, s)
	web := Scope{Channel: "web"}
	for words, want := range map[string][]string{
		"feta 342":   {"web:342", "web:341"}, // in the title; in the title and a message
		"342 fet":    {"web:342", "web:341"},
		`"feta 342"`: {"web:342"},
		"feta 50":    {"web:50", "web:500", "web:49"}, // a whole word of the title, the beginning of one, a message
	} {
		got, _ := mustFindConversations(t, s, ConversationQuery{Scope: web, Words: words, Limit: len(want)})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v first", words, got, want)
		}
	}
	var all []string
	for more := true; more; {
		var page []string
		page, more = mustFindConversations(t, s, ConversationQuery{Scope: web, Words: "feta 342", Limit: 30, Skip: len(all)})
		all = append(all, page...)
	}
	if slices.Sort(all); len(slices.Compact(all)) != chats {
		t.Errorf("paging through what is found gives %d chats, want %d", len(all), chats)
	}

	reached := map[conversation.Key]bool{}
	for from := ""; ; {
		page, next, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Channel: "web", From: from, Limit: 30})
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range page {
			if reached[session.Key] = true; session.Title == "" {
				t.Errorf("%s has no title", session.Key)
			}
		}
		if from = next; next == "" {
			break
		}
	}
	if len(reached) != chats {
		t.Errorf("paging through the list reaches %d chats, want %d", len(reached), chats)
	}
}

// Conversations are not found by internal or replaced messages, nor by those of other sessions.
func TestConversationsAreFoundByTheirMessages(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	addTitled(t, s, "web:a", "Holidays", "a tent for the mountains", "take a stove")
	addTitled(t, s, "web:b", "Mountains", "how high is the Säntis?")
	addTitled(t, s, "api:team/one", "", "mountains of data")
	storetest.Tell(t, s, "web:c", storetest.User("hello"), conversation.Message{Role: conversation.RoleSystem, Content: "mountains", Internal: true},
		conversation.Message{Role: conversation.RoleTool, ToolName: "look", Content: "mountains"})
	addTitled(t, s, "web:d", "Deleted mountains", "mountains")
	if _, err := s.Delete(t.Context(), "web:d", ""); err != nil {
		t.Fatal(err)
	}
	storetest.Chores(t, s)
	for _, c := range []struct {
		scope Scope
		words string
		want  []string
	}{
		{Scope{Channel: "web"}, "mountains", []string{"web:b", "web:a"}},
		{Scope{Channel: "web"}, "mountain tent", []string{"web:a", "web:b"}}, // all words before some
		{Scope{Channel: "web"}, "santis mountain", []string{"web:b", "web:a"}},
		{Scope{Prefix: "api:team/"}, "mountains", []string{"api:team/one"}},
		{Scope{Prefix: "api:%"}, "mountains", nil},
		{Scope{}, "data mou", []string{"api:team/one", "web:b"}}, // three letters begin no word of a message
		{Scope{Channel: "web"}, "glacier", nil},
		{Scope{Channel: "web"}, "  ", nil},
	} {
		if got, _ := mustFindConversations(t, s, ConversationQuery{Scope: c.scope, Words: c.words, Limit: 10}); !slices.Equal(got, c.want) {
			t.Errorf("%s in %+v: %v, want %v", c.words, c.scope, got, c.want)
		}
	}
	page, _, err := New(s).Conversations(t.Context(), ConversationQuery{Words: "mountai", Scope: Scope{Channel: "web"}, Limit: 5})
	if err != nil || len(page) != 2 || page[0].Title.Mark("[", "]") != "[Mountains]" || len(page[0].Hits) != 0 || page[1].Hits[0].Snippet.Mark("[", "]") != "a tent for the [mountains]" {
		t.Errorf("%+v, %v", page, err)
	}
}

// However many messages other sessions have, they take no place among the hits of a scoped search.
func TestScopedSearchIsNotAffectedByOtherSessions(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	addTitled(t, s, "web:quiet", "", "feta with olives")
	var loud []conversation.Message
	for range maxPostings + 10 {
		loud = append(loud, storetest.User("feta feta feta"))
	}
	storetest.Tell(t, s, "telegram:chat:1", loud...)
	storetest.Chores(t, s)
	if got, _ := mustFindConversations(t, s, ConversationQuery{Scope: Scope{Channel: "web"}, Words: "feta", Limit: 5}); !slices.Equal(got, []string{"web:quiet"}) {
		t.Errorf("found %v", got)
	}
	if hits := mustSearch(t, s, Query{Scope: Scope{Prefix: "web:"}, Words: "feta"}); len(hits) != 1 || hits[0].Key != "web:quiet" {
		t.Errorf("found %+v", hits)
	}
}
