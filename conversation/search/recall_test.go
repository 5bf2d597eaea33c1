package search

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/storetest"

	"github.com/google/go-cmp/cmp"
)

func mustTurns(t testing.TB, s *conversation.Store, conversation string, first, last int64) (turns []int64, said []string) {
	t.Helper()
	list, err := New(s).Turns(t.Context(), storetest.Chat, conversation, first, last)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		turns = append(turns, e.Number)
		said = append(said, strings.Join(storetest.Texts(e.Messages), " / "))
	}
	return turns, said
}

func activeID(t testing.TB, s *conversation.Store) string {
	t.Helper()
	c, err := s.Active(t.Context(), storetest.Chat)
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// Any stretch of a long conversation is read by the numbers of its turns, whether or not their counts are
// stored yet.
func TestTurnsAreReadByTheirNumbers(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 100 {
		storetest.Tell(t, s, storetest.Chat, storetest.User(fmt.Sprintf("question %d", i+1)), storetest.User("more"), storetest.Assistant("answer"))
	}
	id := activeID(t, s)
	for _, when := range []string{"before the counts are kept", "after"} {
		for _, c := range []struct {
			first, last int64
			want        []int64
		}{
			{1, 2, []int64{1, 2}}, {-5, 1, []int64{1}}, {42, 44, []int64{42, 43, 44}}, {99, 500, []int64{99, 100}}, {101, 102, nil}, {5, 4, nil},
		} {
			turns, said := mustTurns(t, s, id, c.first, c.last)
			if diff := cmp.Diff(c.want, turns); diff != "" {
				t.Errorf("%s, turns %d to %d: %s", when, c.first, c.last, diff)
			}
			for i, text := range said {
				if want := fmt.Sprintf("question %d / more / answer", turns[i]); text != want {
					t.Errorf("%s, turn %d is %q, want %q", when, turns[i], text, want)
				}
			}
		}
		storetest.Chores(t, s)
	}
}

// The turn after an undone one has its number, as in the session state.
func TestUndoneTurnFreesItsNumber(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 32 { // as many messages as there is between two counts
		storetest.Tell(t, s, storetest.Chat, storetest.User(fmt.Sprintf("question %d", i+1)), storetest.Assistant("answer"))
	}
	storetest.Chores(t, s)
	storetest.Exec(t, s, `UPDATE messages SET state = 'undone' WHERE seq > 62`)
	storetest.Tell(t, s, storetest.Chat, storetest.User("asked anew"), storetest.Assistant("answer"))
	storetest.Chores(t, s)
	_, said := mustTurns(t, s, activeID(t, s), 31, 33)
	if diff := cmp.Diff([]string{"question 31 / answer", "asked anew / answer"}, said); diff != "" {
		t.Error(diff)
	}
	if hit := mustSearch(t, s, Query{Key: storetest.Chat, Words: "anew"})[0]; hit.Turn != 32 {
		t.Errorf("a hit in turn 32 is reported as turn %d", hit.Turn)
	}
}

func TestRecallStaysInItsSession(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("secret"), storetest.Assistant("kept"))
	id := activeID(t, s)
	_, turns := New(s).Turns(t.Context(), "cli:other", id, 1, 1)
	_, uses := New(s).ToolUses(t.Context(), "cli:other", id, ToolQuery{Limit: 1})
	_, overview := New(s).Overview(t.Context(), "cli:other", id, 1)
	for _, err := range []error{turns, uses, overview} {
		if !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("another session's conversation: %v", err)
		}
	}
}

func TestOverviewSpreadsOverTheConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 50 {
		storetest.Tell(t, s, storetest.Chat, storetest.User(fmt.Sprintf("question %d", i+1)), storetest.Assistant("answer"))
	}
	o, err := New(s).Overview(t.Context(), storetest.Chat, activeID(t, s), 4)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range o.Openings {
		said = append(said, fmt.Sprintf("%d: %s", e.Number, e.Messages[0].Content))
	}
	if diff := cmp.Diff([]string{"1: question 1", "17: question 17", "33: question 33", "50: question 50"}, said); diff != "" || o.Turns != 50 {
		t.Errorf("%d turns, %s", o.Turns, diff)
	}
}

// A database of an earlier version keeps its messages, and is searched like a new one once the index is
// rebuilt.
func TestDatabaseOfAnEarlierVersionIsIndexedAgain(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	if err := db.MakeSchema(t.Context(), path, 2); err != nil {
		t.Fatal(err)
	}
	file, err := sqlite.Open(path, sqlite.Options{ForeignKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, row := range []string{
		`INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'telegram:chat:42', 'telegram', 0)`,
		`INSERT INTO conversations (id, uuid, session_id, messages, created_at, updated_at) VALUES (1, 'old', 1, 2, 0, 0)`,
		`INSERT INTO messages (id, conversation_id, seq, run_id, role, content, tokens, created_at)
			VALUES (1, 1, 1, 1, 'user', 'call parse_config', 1, 0), (2, 1, 2, 1, 'assistant', '数据库', 1, 0)`,
		`INSERT INTO messages_fts (rowid, content) SELECT id, content FROM messages`,
		`UPDATE cursors SET value = 2 WHERE name = 'messages_fts'`,
	} {
		if _, err := file.Exec(row); err != nil {
			t.Fatal(err)
		}
	}
	s := storetest.Open(t, path)
	storetest.Chores(t, s)
	for _, words := range []string{"config", "据库"} {
		if hits := mustSearch(t, s, Query{Key: storetest.Chat, Words: words}); len(hits) != 1 || hits[0].Turn != 1 {
			t.Errorf("%s: %+v", words, hits)
		}
	}
}
