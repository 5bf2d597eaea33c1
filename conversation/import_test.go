package conversation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func imported(id string, messages int) Imported {
	c := Imported{ID: id, Title: "from elsewhere", CreatedAt: time.UnixMilli(1000), UpdatedAt: time.UnixMilli(2000)}
	for i := range messages {
		role := RoleUser
		if i%2 == 1 {
			role = RoleAssistant
		}
		c.Messages = append(c.Messages, Message{Role: role, Content: fmt.Sprintf("imported line %d", i), Tokens: 3, At: time.UnixMilli(1500)})
	}
	return c
}

func mustImport(t testing.TB, s *Store, key Key, list ...Imported) (added int) {
	t.Helper()
	added, err := importAll(t.Context(), s, key, list...)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func importAll(ctx context.Context, s *Store, key Key, list ...Imported) (added int, err error) {
	im, err := s.BeginImport(ctx, key)
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

// Who imports sees the conversations among the earlier ones of their chat, with
// their own dates, finds words in them, and goes on with the present one.
func TestImportedConversationsAreArchivedOnes(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, chat, 1)
	before, _ := s.Active(t.Context(), chat)
	if n := mustImport(t, s, chat, imported("a", 4), imported("b", 2)); n != 2 {
		t.Fatalf("%d added", n)
	}
	if after, _ := s.Active(t.Context(), chat); after.ID != before.ID || after.Messages != before.Messages {
		t.Errorf("the active conversation became %+v", after)
	}
	list, _, err := s.Conversations(t.Context(), ConversationQuery{Key: chat, Skip: 1, Limit: 10})
	if err != nil || len(list) != 2 || list[1].ID != "a" || list[1].Active || list[1].Messages != 4 || list[1].Tokens != 12 ||
		list[1].CreatedAt.UnixMilli() != 1000 || list[1].UpdatedAt.UnixMilli() != 2000 {
		t.Errorf("listed: %+v, %v", list, err)
	}
	page, err := s.Messages(t.Context(), MessageQuery{Conversation: "a", Turns: 1})
	if err != nil || len(page.Messages) != 2 || page.Messages[1].Seq != 4 || page.Messages[1].Content != "imported line 3" {
		t.Errorf("history: %+v, %v", page, err)
	}
	if hits, err := Find(t.Context(), s, chat, "imported", 10); err != nil || len(hits) != 6 {
		t.Errorf("%d of 6 messages are found, %v", len(hits), err)
	}
}

func TestImportingAgainAddsNothing(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustImport(t, s, chat, imported("a", 2))
	if n := mustImport(t, s, chat, imported("a", 2), imported("b", 2), imported("b", 2)); n != 1 {
		t.Errorf("%d added, want b alone", n)
	}
	if n, err := s.Delete(t.Context(), chat, "a"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n := mustImport(t, s, chat, imported("a", 2)); n != 1 {
		t.Error("a conversation that was deleted can't be imported again")
	}
}

// A disk that fills up in the middle must not leave half a conversation.
func TestAConversationIsImportedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	if err := execute(s, `
		CREATE TRIGGER full BEFORE INSERT ON messages WHEN new.seq = 900 BEGIN SELECT RAISE(ABORT, 'disk full'); END`); err != nil {
		t.Fatal(err)
	}
	if added, err := importAll(t.Context(), s, chat, imported("a", 1000)); err == nil || added != 0 {
		t.Fatalf("added: %v, %v", added, err)
	}
	wantNoMessages(t, s)
}

// An import that was killed leaves nothing that anybody sees, and the next one
// clears it away.
func TestAKilledImportIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustImport(t, s, chat, imported("a", 300))
	if err := execute(s, `UPDATE conversations SET deleted = 1, staged = 1`); err != nil {
		t.Fatal(err)
	}
	if list, _, err := s.Sessions(t.Context(), SessionQuery{}); err != nil || len(list) != 0 {
		t.Errorf("half an import is listed: %+v, %v", list, err)
	}
	if hits, err := Find(t.Context(), s, "", "imported", 10); err != nil || len(hits) != 0 {
		t.Errorf("half an import is found: %+v, %v", hits, err)
	}
	chores(t, s)
	if n := mustImport(t, s, chat, imported("a", 300)); n != 1 {
		t.Error("it can't be imported again")
	}
	if c, err := s.Find(t.Context(), "a"); err != nil || c.Messages != 300 {
		t.Errorf("imported again: %+v, %v", c, err)
	}
}

// Other chats must not wait for a long import: no transaction of it has more
// than a bounded number of rows or bytes.
func TestAnImportGoesInSmallSteps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		messages, bytes, want int
	}{
		{10_000, 10, importBatch},
		{10, 10, 10},
		{10, importBytes / 3, 3},
		{10, 2 * importBytes, 1},
	} {
		list := make([]Message, tt.messages)
		for i := range list {
			list[i].Content = strings.Repeat("x", tt.bytes)
		}
		if n := batchLength(list); n != tt.want {
			t.Errorf("%d messages of %d bytes: %d in one transaction, want %d", tt.messages, tt.bytes, n, tt.want)
		}
	}
}

// A long import runs beside a daemon on the same file.
func TestADaemonAnswersDuringAnImport(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: it imports a long history")
	}
	path := filepath.Join(t.TempDir(), "shared.db")
	daemon, s := mustOpenAt(t, path), mustOpenAt(t, path)
	ended := make(chan error, 1)
	go func() {
		_, err := importAll(t.Context(), s, "cli:default", imported("a", 10_000))
		ended <- err
	}()
	answers := 0
	for running := true; running; answers++ {
		exchange(t, daemon, chat, answers)
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
	}
	c, err := daemon.Find(t.Context(), "a")
	if err != nil || c.Messages != 10_000 {
		t.Errorf("imported: %+v, %v", c, err)
	}
	if active, _ := daemon.Active(t.Context(), chat); active.Messages != int64(2*answers) {
		t.Errorf("%d exchanges were held, and %d messages are stored", answers, active.Messages)
	}
}

func wantNoMessages(t testing.TB, s *Store) {
	t.Helper()
	var n int
	if err := s.db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM conversations)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows are left, %v", n, err)
	}
}
