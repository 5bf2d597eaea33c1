package conversation

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustExchanges(t testing.TB, s *Store, conversation string, first, last int64) (turns []int64, said []string) {
	t.Helper()
	list, err := s.Exchanges(t.Context(), chat, conversation, first, last)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		turns = append(turns, e.Turn)
		said = append(said, strings.Join(texts(e.Messages), " / "))
	}
	return turns, said
}

func activeID(t testing.TB, s *Store) string {
	t.Helper()
	c, err := s.Active(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// Any stretch of a long conversation is read by the numbers of its turns,
// whether the counts are kept yet or not.
func TestTurnsAreReadByTheirNumbers(t *testing.T) {
	s := mustOpen(t)
	for i := range 100 {
		told(t, s, chat, user(fmt.Sprintf("question %d", i+1)), user("more"), assistant("answer"))
	}
	id := activeID(t, s)
	for _, when := range []string{"before the counts are kept", "after"} {
		for _, c := range []struct {
			first, last int64
			want        []int64
		}{
			{1, 2, []int64{1, 2}}, {-5, 1, []int64{1}}, {42, 44, []int64{42, 43, 44}}, {99, 500, []int64{99, 100}}, {101, 102, nil}, {5, 4, nil},
		} {
			turns, said := mustExchanges(t, s, id, c.first, c.last)
			if diff := cmp.Diff(c.want, turns); diff != "" {
				t.Errorf("%s, turns %d to %d: %s", when, c.first, c.last, diff)
			}
			for i, text := range said {
				if want := fmt.Sprintf("question %d / more / answer", turns[i]); text != want {
					t.Errorf("%s, turn %d is %q, want %q", when, turns[i], text, want)
				}
			}
		}
		chores(t, s)
	}
}

// An exchange that was taken back gives its number to the next one, as the
// session state counts.
func TestATurnThatIsTakenBackFreesItsNumber(t *testing.T) {
	s := mustOpen(t)
	for i := range 32 { // as many messages as there is between two counts
		told(t, s, chat, user(fmt.Sprintf("question %d", i+1)), assistant("answer"))
	}
	chores(t, s)
	if err := execute(s, `UPDATE messages SET state = 'undone' WHERE seq > 62`); err != nil {
		t.Fatal(err)
	}
	told(t, s, chat, user("asked anew"), assistant("answer"))
	chores(t, s)
	_, said := mustExchanges(t, s, activeID(t, s), 31, 33)
	if diff := cmp.Diff([]string{"question 31 / answer", "asked anew / answer"}, said); diff != "" {
		t.Error(diff)
	}
	if hit := mustSearch(t, s, SearchQuery{Key: chat, Words: "anew"})[0]; hit.Turn != 32 {
		t.Errorf("a hit in turn 32 is told as turn %d", hit.Turn)
	}
}

func TestRecallStaysInItsSession(t *testing.T) {
	s := mustOpen(t)
	told(t, s, chat, user("secret"), assistant("kept"))
	id := activeID(t, s)
	_, exchanges := s.Exchanges(t.Context(), "cli:other", id, 1, 1)
	_, uses := s.ToolUses(t.Context(), "cli:other", id, "", 1)
	_, overview := s.Overview(t.Context(), "cli:other", id, 1)
	for _, err := range []error{exchanges, uses, overview} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("another session's conversation: %v", err)
		}
	}
}

func TestOverviewSpreadsOverTheConversation(t *testing.T) {
	s := mustOpen(t)
	for i := range 50 {
		told(t, s, chat, user(fmt.Sprintf("question %d", i+1)), assistant("answer"))
	}
	o, err := s.Overview(t.Context(), chat, activeID(t, s), 4)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range o.Openings {
		said = append(said, fmt.Sprintf("%d: %s", e.Turn, e.Messages[0].Content))
	}
	if diff := cmp.Diff([]string{"1: question 1", "17: question 17", "33: question 33", "50: question 50"}, said); diff != "" || o.Turns != 50 {
		t.Errorf("%d turns, %s", o.Turns, diff)
	}
}

// A database of an earlier version keeps its talk, and is searched in the new
// way as soon as the index is made again.
func TestAnEarlierDatabaseIsIndexedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 2,
		`INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'telegram:chat:42', 'telegram', 0)`,
		`INSERT INTO conversations (id, uuid, session_id, messages, created_at, updated_at) VALUES (1, 'old', 1, 2, 0, 0)`,
		`INSERT INTO messages (id, conversation_id, seq, run_id, role, content, tokens, created_at)
			VALUES (1, 1, 1, 1, 'user', 'call parse_config', 1, 0), (2, 1, 2, 1, 'assistant', '数据库', 1, 0)`,
		`INSERT INTO messages_fts (rowid, content) SELECT id, content FROM messages`,
		`UPDATE cursors SET value = 2 WHERE name = 'messages_fts'`)
	s := mustOpenAt(t, path)
	chores(t, s)
	for _, words := range []string{"config", "据库"} {
		if hits := mustSearch(t, s, SearchQuery{Key: chat, Words: words}); len(hits) != 1 || hits[0].Turn != 1 {
			t.Errorf("%s: %+v", words, hits)
		}
	}
}
