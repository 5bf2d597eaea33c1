package archive_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/catalog"
	"parley/conversation/search"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

func imported(id string, messages int) archive.Imported {
	c := archive.Imported{ID: id, Title: "from elsewhere", CreatedAt: time.UnixMilli(1000), UpdatedAt: time.UnixMilli(2000)}
	for i := range messages {
		role := conversation.RoleUser
		if i%2 == 1 {
			role = conversation.RoleAssistant
		}
		c.Messages = append(c.Messages, conversation.Message{Role: role, Content: fmt.Sprintf("imported line %d", i), Tokens: 3, At: time.UnixMilli(1500)})
	}
	return c
}

func mustImport(t testing.TB, s *conversation.Store, key conversation.Key, list ...archive.Imported) (added int) {
	t.Helper()
	added, err := importAll(t.Context(), s, key, list...)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func importAll(ctx context.Context, s *conversation.Store, key conversation.Key, list ...archive.Imported) (added int, err error) {
	im, err := archive.New(s).Import(ctx, key)
	if err != nil {
		return 0, err
	}
	for _, c := range list {
		is, err := im.Add(ctx, c)
		if err != nil {
			return added, errors.Join(err, im.Close(ctx))
		}
		if is {
			added++
		}
	}
	return added, im.Close(ctx)
}

// Imported conversations are listed among the archived ones of their chat, with their own dates, and can
// be searched. The active conversation does not change.
func TestImportedConversationsAreArchivedOnes(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	before, _ := s.Active(t.Context(), storetest.Chat)
	if n := mustImport(t, s, storetest.Chat, imported("a", 4), imported("b", 2)); n != 2 {
		t.Fatalf("%d added", n)
	}
	if after, _ := s.Active(t.Context(), storetest.Chat); after.ID != before.ID || after.Messages != before.Messages {
		t.Errorf("the active conversation became %+v", after)
	}
	list, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: storetest.Chat, Skip: 1, Limit: 10})
	if err != nil || len(list) != 2 || list[1].ID != "a" || list[1].Active || list[1].Messages != 4 || list[1].Tokens != 12 ||
		list[1].CreatedAt.UnixMilli() != 1000 || list[1].UpdatedAt.UnixMilli() != 2000 {
		t.Errorf("listed: %+v, %v", list, err)
	}
	page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: "a", Turns: 1})
	if err != nil || len(page.Messages) != 2 || page.Messages[1].Seq != 4 || page.Messages[1].Content != "imported line 3" {
		t.Errorf("history: %+v, %v", page, err)
	}
	if hits, err := search.New(s).Find(t.Context(), search.Query{Key: storetest.Chat, Words: "imported", Limit: 10}); err != nil || len(hits) != 6 {
		t.Errorf("%d of 6 messages are found, %v", len(hits), err)
	}
}

func TestImportingAgainAddsNothing(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	mustImport(t, s, storetest.Chat, imported("a", 2))
	if n := mustImport(t, s, storetest.Chat, imported("a", 2), imported("b", 2), imported("b", 2)); n != 1 {
		t.Errorf("%d added, want b alone", n)
	}
	if n, err := s.Delete(t.Context(), storetest.Chat, "a"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n := mustImport(t, s, storetest.Chat, imported("a", 2)); n != 1 {
		t.Error("a conversation that was deleted can't be imported again")
	}
}

// When the disk fills up during an import, no part of a conversation is left.
func TestConversationIsImportedCompletelyOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.FailInserts(t, s, "messages", "NEW.seq = 900")
	if added, err := importAll(t.Context(), s, storetest.Chat, imported("a", 1000)); err == nil || added != 0 {
		t.Fatalf("added: %v, %v", added, err)
	}
	wantNoMessages(t, s)
}

// Nothing of a killed import is visible, and the next import deletes it.
func TestKilledImportIsRepeated(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	mustImport(t, s, storetest.Chat, imported("a", 300))
	storetest.Exec(t, s, `UPDATE conversations SET deleted = 1, staged = 1`)
	if list, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{}); err != nil || len(list) != 0 {
		t.Errorf("half an import is listed: %+v, %v", list, err)
	}
	if hits, err := search.New(s).Find(t.Context(), search.Query{Key: "", Words: "imported", Limit: 10}); err != nil || len(hits) != 0 {
		t.Errorf("half an import is found: %+v, %v", hits, err)
	}
	storetest.Chores(t, s)
	if n := mustImport(t, s, storetest.Chat, imported("a", 300)); n != 1 {
		t.Error("it can't be imported again")
	}
	if c, err := catalog.New(s).Find(t.Context(), "a"); err != nil || c.Messages != 300 {
		t.Errorf("imported again: %+v, %v", c, err)
	}
}

// A long import runs beside a daemon on the same file.
func TestADaemonAnswersDuringAnImport(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: it imports a long history")
	}
	path := filepath.Join(t.TempDir(), "shared.db")
	daemon, s := storetest.Open(t, path), storetest.Open(t, path)
	ended := make(chan error, 1)
	go func() {
		_, err := importAll(t.Context(), s, "cli:default", imported("a", 10_000))
		ended <- err
	}()
	answers := 0
	for running := true; running; answers++ {
		storetest.Turn(t, daemon, storetest.Chat, answers)
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
	}
	c, err := catalog.New(daemon).Find(t.Context(), "a")
	if err != nil || c.Messages != 10_000 {
		t.Errorf("imported: %+v, %v", c, err)
	}
	if active, _ := daemon.Active(t.Context(), storetest.Chat); active.Messages != int64(2*answers) {
		t.Errorf("%d exchanges were held, and %d messages are stored", answers, active.Messages)
	}
}

// Only one node of a database imports at a time; the process id of another machine says nothing.
func TestImportWaitsForThatOfAnotherNode(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	open := func() *conversation.Store {
		s, err := conversation.Open(t.Context(), conversation.Config{Path: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s, other := open(), open()
	under, err := archive.New(other).Import(t.Context(), "cli:default")
	if err != nil {
		t.Fatal(err)
	}
	const want = "another import into this database is under way (another process): wait for it"
	if _, err := archive.New(s).Import(t.Context(), "cli:default"); !errors.Is(err, archive.ErrUnderWay) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := under.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func wantNoMessages(t testing.TB, s *conversation.Store) {
	t.Helper()
	var n int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM conversations)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows are left, %v", n, err)
	}
}

// The sweep does not delete the rows of an import that is under way.
func TestImportUnderWayIsNotSwept(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	mustImport(t, s, storetest.Chat, imported("a", 300))
	storetest.Exec(t, s, `UPDATE conversations SET deleted = 1, staged = 1`)
	storetest.Chores(t, s)
	storetest.Exec(t, s, `UPDATE conversations SET deleted = 0, staged = 0`)
	if c, err := catalog.New(s).Find(t.Context(), "a"); err != nil || c.Messages != 300 {
		t.Errorf("%+v, %v", c, err)
	}
}
