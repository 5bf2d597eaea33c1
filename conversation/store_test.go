package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation/internal/db"

	"github.com/google/go-cmp/cmp"
)

const chat = Key("telegram:chat:42")

func say(key Key, id int, text string) Inbound {
	return Inbound{Key: key, SourceID: fmt.Sprintf("%s/%d", key, id), Address: "to " + string(key), Text: text, At: time.UnixMilli(int64(id))}
}

func mustAccept(t testing.TB, s *Store, batch ...Inbound) {
	t.Helper()
	if _, err := s.Accept(t.Context(), nil, batch...); err != nil {
		t.Fatal(err)
	}
}

func mustBegin(t testing.TB, s *Store, key Key, budget int) Snapshot {
	t.Helper()
	turn, err := s.Begin(t.Context(), key, budget)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func mustCommit(t testing.TB, s *Store, run Run) {
	t.Helper()
	if _, err := s.Commit(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

// answered is the run that answers a turn, each message counting 10 tokens.
func answered(key Key, turn Snapshot, reply string) Run {
	run := Run{Key: key, Kind: KindAgent, Status: StatusDone, Conversation: turn.Conversation}
	for _, in := range turn.Waiting {
		run.Took = append(run.Took, in)
		run.Messages = append(run.Messages, Message{Role: RoleUser, Content: in.Text, SourceID: in.SourceID, Tokens: 10})
	}
	run.Messages = append(run.Messages, Message{Role: RoleAssistant, Content: reply, Tokens: 10})
	run.Replies = []Delivery{{Key: key, Address: turn.Waiting[0].Address, Text: reply}}
	return run
}

// exchange takes one message through to its answer.
func exchange(t testing.TB, s *Store, key Key, id int) {
	t.Helper()
	mustAccept(t, s, say(key, id, fmt.Sprintf("question %d", id)))
	mustCommit(t, s, answered(key, mustBegin(t, s, key, 1000), fmt.Sprintf("answer %d", id)))
}

func texts(messages []Message) []string {
	var list []string
	for _, m := range messages {
		list = append(list, m.Content)
	}
	return list
}

func TestMessageIsAnsweredOnceHoweverOftenItIsDelivered(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for range 3 {
		mustAccept(t, s, say(chat, 1, "one"), say(chat, 2, "two"))
	}
	turn := mustBegin(t, s, chat, 1000)
	if len(turn.Waiting) != 2 || turn.Waiting[0].Text != "one" || turn.Waiting[1].Text != "two" {
		t.Fatalf("waiting: %+v", turn.Waiting)
	}
	mustCommit(t, s, answered(chat, turn, "answer"))
	mustAccept(t, s, say(chat, 1, "one"), say(chat, 2, "two"))
	if turn := mustBegin(t, s, chat, 1000); len(turn.Waiting) != 0 {
		t.Fatalf("a message that was answered waits again: %+v", turn.Waiting)
	}
}

func TestCursorMovesOnlyWithItsBatch(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	ctx := t.Context()
	if _, err := s.Accept(ctx, []Cursor{{Name: "telegram:1", Value: "17"}}, say(chat, 1, "one")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Cursor(ctx, "telegram:1"); got != "17" || err != nil {
		t.Fatalf("cursor %q, %v", got, err)
	}
	if got, err := s.Cursor(ctx, "telegram:2"); got != "" || err != nil {
		t.Fatalf("unknown cursor: %q, %v", got, err)
	}
	broken := say(chat, 2, "two")
	broken.Key = "" // no session has this name, but the failure is SQLite's own below
	if err := execute(s, `CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'disk full'); END`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accept(ctx, []Cursor{{Name: "telegram:1", Value: "18"}}, broken); err == nil {
		t.Fatal("a batch that can't be stored was accepted")
	}
	if got, _ := s.Cursor(ctx, "telegram:1"); got != "17" {
		t.Fatalf("the cursor moved to %s without its batch", got)
	}
}

func TestTextIsStoredWhateverItsBytes(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	huge := strings.Repeat("0123456789abcdef", 1<<16)
	mustAccept(t, s, say(chat, 1, "a\x00b\xff\xfec"), say(chat, 2, huge), say(chat, 3, ""))
	turn := mustBegin(t, s, chat, 1000)
	if got := turn.Waiting[0].Text; got != "a\uFFFDb\uFFFDc" {
		t.Errorf("hostile text came back as %q", got)
	}
	if turn.Waiting[1].Text != huge || turn.Waiting[2].Text != "" {
		t.Error("a huge or an empty text changed")
	}
}

func TestCommitTwiceStoresOnce(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, say(chat, 1, "one"))
	turn := mustBegin(t, s, chat, 1000)
	run := answered(chat, turn, "answer")
	mustCommit(t, s, run)
	if _, err := s.Commit(t.Context(), run); !errors.Is(err, ErrSettled) {
		t.Fatalf("the second commit of a run gave %v", err)
	}
	page, err := s.Messages(t.Context(), MessageQuery{Conversation: turn.Conversation.ID, Turns: 10})
	if err != nil || !cmp.Equal(texts(page.Messages), []string{"one", "answer"}) {
		t.Fatalf("history: %q, %v", texts(page.Messages), err)
	}
	due, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 10})
	if err != nil || len(due) != 1 {
		t.Fatalf("%d deliveries for one answer, %v", len(due), err)
	}
}

func TestWindowHoldsWholeExchangesWithinTheBudget(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for i := 1; i <= 10; i++ {
		exchange(t, s, chat, i)
	}
	mustAccept(t, s, say(chat, 11, "next"))
	for budget, want := range map[int][]string{
		1000: nil, // all, checked below
		45:   {"question 9", "answer 9", "question 10", "answer 10"},
		30:   {"question 10", "answer 10"},
		5:    {"question 10", "answer 10"}, // the newest is always given
	} {
		turn := mustBegin(t, s, chat, budget)
		if want == nil {
			if len(turn.History) != 20 || turn.Older != 0 {
				t.Errorf("budget %d: %d messages, %d older", budget, len(turn.History), turn.Older)
			}
			continue
		}
		if diff := cmp.Diff(want, texts(turn.History)); diff != "" || turn.Older != int64(20-len(want)) {
			t.Errorf("budget %d: %d older, %s", budget, turn.Older, diff)
		}
	}
}

func TestNewKeepsTheOldConversationAndBeginsAfresh(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, chat, 1)
	mustAccept(t, s, say(chat, 2, "/new second"))
	turn := mustBegin(t, s, chat, 1000)
	mustCommit(t, s, Run{Key: chat, Kind: KindCommand, Status: StatusDone, Took: turn.Waiting[:1], Effect: Effect{Archive: true, Title: "second"}})
	exchange(t, s, chat, 3)

	active, err := s.Active(t.Context(), chat)
	if err != nil || active.Title != "second" || active.Messages != 2 || active.ID == turn.Conversation.ID {
		t.Fatalf("active: %+v, %v", active, err)
	}
	list, _, err := s.Conversations(t.Context(), ConversationQuery{Key: chat, Limit: 10})
	if err != nil || len(list) != 2 || list[1].ID != turn.Conversation.ID || list[1].Active {
		t.Fatalf("list: %+v, %v", list, err)
	}
	if err := s.Resume(t.Context(), chat, turn.Conversation.ID); err != nil {
		t.Fatal(err)
	}
	if active, _ := s.Active(t.Context(), chat); active.ID != turn.Conversation.ID {
		t.Fatalf("resumed %s, active is %s", turn.Conversation.ID, active.ID)
	}
	if err := s.Resume(t.Context(), "telegram:chat:7", turn.Conversation.ID); !errors.Is(err, ErrNotFound) {
		t.Fatalf("another chat resumed this one's conversation: %v", err)
	}
}

func TestRetryReplacesTheAnswerAndKeepsItInTheArchive(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, chat, 1)
	mustAccept(t, s, say(chat, 2, "/retry"))
	turn := mustBegin(t, s, chat, 1000)
	mustCommit(t, s, Run{Key: chat, Kind: KindAgent, Status: StatusDone, Took: turn.Waiting[:1],
		Conversation: turn.Conversation, Effect: Effect{Replace: 1},
		Messages: []Message{{Role: RoleAssistant, Content: "better", Tokens: 10}}})
	page, err := s.Messages(t.Context(), MessageQuery{Conversation: turn.Conversation.ID, Turns: 5})
	if err != nil || !cmp.Equal(texts(page.Messages), []string{"question 1", "better"}) {
		t.Fatalf("history: %q, %v", texts(page.Messages), err)
	}
	var kept int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM messages WHERE content = 'answer 1'`).Scan(&kept); err != nil || kept != 1 {
		t.Fatalf("the first answer is gone from the archive: %d, %v", kept, err)
	}
}

func TestHistoryPagesBackToTheBeginning(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for i := 1; i <= 7; i++ {
		exchange(t, s, chat, i)
	}
	c, _ := s.Active(t.Context(), chat)
	var seen []string
	for skip := 0; ; skip += 3 {
		page, err := s.Messages(t.Context(), MessageQuery{Conversation: c.ID, SkipTurns: skip, Turns: 3})
		if err != nil {
			t.Fatal(err)
		}
		seen = append(texts(page.Messages), seen...)
		if !page.More {
			break
		}
	}
	if len(seen) != 14 || seen[0] != "question 1" || seen[13] != "answer 7" {
		t.Fatalf("pages: %q", seen)
	}
}

// A page in turns has whole turns from either end, also where an answer has no words,
// and within the bounds that are asked for.
func TestPagesInWholeTurns(t *testing.T) {
	s := mustOpen(t)
	done := mustAppend(t, s, "",
		Message{Role: RoleUser, Content: "a"}, Message{Role: RoleUser, Content: "b"}, Message{Role: RoleAssistant, Content: "c"},
		Message{Role: RoleUser, Content: "d"}, Message{Role: RoleAssistant, ToolCalls: []ToolCall{{ID: "1", Name: "f"}}}, Message{Role: RoleTool, Content: "e", ToolCallID: "1"},
		Message{Role: RoleSystem, Content: "internal"}, Message{Role: RoleUser, Content: "f"}, Message{Role: RoleAssistant, Content: "g"})
	for _, tt := range []struct {
		query MessageQuery
		want  string
		more  bool
	}{
		{MessageQuery{Turns: 1}, "f g", true},
		{MessageQuery{Turns: 1, SkipTurns: 1}, "d", true},
		{MessageQuery{Turns: 1, SkipTurns: 1, View: ViewTalk}, "d  e", true},
		{MessageQuery{Turns: 2, View: ViewAll}, "d  e internal f g", true},
		{MessageQuery{Turns: 1, SkipTurns: 2}, "a b c", false},
		{MessageQuery{Turns: 9}, "a b c d f g", false},
		{MessageQuery{Turns: 1, SkipTurns: 3}, "", false},
		{MessageQuery{Turns: 1, Forward: true}, "a b c", true},
		{MessageQuery{Turns: 2, SkipTurns: 1, Forward: true}, "d f g", false},
		{MessageQuery{Turns: 1, Before: 8}, "d", true},
		{MessageQuery{Turns: 1, After: 3, Forward: true}, "d", true},
	} {
		tt.query.Conversation = done.Conversation.ID
		page, err := s.Messages(t.Context(), tt.query)
		if got := strings.Join(texts(page.Messages), " "); got != tt.want || page.More != tt.more || err != nil {
			t.Errorf("%+v: %q, more %v, %v", tt.query, got, page.More, err)
		}
	}
	for _, q := range []MessageQuery{{SkipTurns: 1}, {Turns: 1, Limit: 1}, {Turns: -1}, {Turns: 1, Metadata: Filter{"a": "b"}}} {
		if _, err := s.Messages(t.Context(), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestDeliveriesSurviveAndEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outbox.db")
	s := mustOpenAt(t, path)
	for i := 1; i <= 3; i++ {
		exchange(t, s, chat, i)
	}
	due, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 10})
	if err != nil || len(due) != 3 {
		t.Fatalf("%d due, %v", len(due), err)
	}
	due[0].Sent = []string{"100"}
	if err := errors.Join(s.Mark(t.Context(), due[0], MarkPart, ""), s.Mark(t.Context(), due[1], MarkSent, ""), s.Mark(t.Context(), due[2], MarkFailed, "blocked")); err != nil {
		t.Fatal(err)
	}
	s.Close()

	s = mustOpenAt(t, path)
	keys, err := s.Due(t.Context(), Scope{Channel: "telegram"})
	if err != nil || !cmp.Equal(keys, []Key{chat}) {
		t.Fatalf("due sessions %v, %v", keys, err)
	}
	left, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 10})
	if err != nil || len(left) != 1 || !cmp.Equal(left[0].Sent, []string{"100"}) {
		t.Fatalf("left: %+v, %v", left, err)
	}
	for _, scope := range []Scope{{Channel: "cli"}, {Channel: "telegram", Key: "telegram:chat:7"}} {
		if keys, _ := s.Due(t.Context(), scope); len(keys) != 0 {
			t.Errorf("scope %+v has the session of another: %v", scope, keys)
		}
	}
}

func TestManySessionsWriteAtOnceWithoutLossOrMixing(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	var all sync.WaitGroup
	for c := range 20 {
		key := Key(fmt.Sprintf("telegram:chat:%d", c))
		all.Go(func() {
			for i := 1; i <= 10; i++ {
				exchange(t, s, key, i)
			}
		})
	}
	all.Wait()
	for c := range 20 {
		key := Key(fmt.Sprintf("telegram:chat:%d", c))
		mustAccept(t, s, say(key, 99, "last"))
		turn := mustBegin(t, s, key, 1000)
		if len(turn.History) != 20 {
			t.Fatalf("%s has %d messages", key, len(turn.History))
		}
		for i, m := range turn.History {
			if m.Seq != int64(i+1) {
				t.Fatalf("%s: gap at %d: seq %d", key, i, m.Seq)
			}
		}
	}
}

// newestMigration is the number that the name of the last migration begins with.
func newestMigration(t *testing.T) (version int64) {
	t.Helper()
	versions, err := db.SchemaVersions()
	if err != nil {
		t.Fatal(err)
	}
	return versions[len(versions)-1]
}

func TestNewerSchemaIsRefusedByName(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "newer.db")
	s := mustOpenAt(t, path)
	if err := execute(s, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`); err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err := Open(t.Context(), Config{Path: path})
	if err == nil || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), fmt.Sprintf("only up to %d:", newestMigration(t))) {
		t.Fatalf("a newer schema gave %v", err)
	}
}

func TestUnusableFilesAreExplained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "missing", "x.db"): "does not exist",
		dir:                                   "can't be opened",
	} {
		if _, err := Open(t.Context(), Config{Path: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestEveryConnectionIsDurable(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		err := s.db.Read(t.Context(), func(ctx context.Context, conn *sql.Conn) error {
			return conn.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("%s = %s, want %s (%v)", pragma, got, want, err)
		}
	}
}

func TestMessagesAreIndexedAMomentLaterAndOnce(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for i := range 20 {
		exchange(t, s, chat, i)
	}
	found := func() (n int) {
		if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'question'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 1000 {
		if found() == 20 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	exchange(t, s, chat, 20)
	chores(t, s)
	if n := found(); n != 21 {
		t.Fatalf("%d of 21 questions are found", n)
	}
	if err := execute(s, `INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)`); err != nil {
		t.Fatalf("the index does not match the messages: %v", err)
	}
}

// An address may hold the key to an interaction, with which anybody could answer
// in the gateway's name. It is kept no longer than it is needed.
func TestAddressesAreForgottenWhenTheyWereUsed(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, chat, 1)
	due, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 1})
	if err != nil || due[0].Address == "" {
		t.Fatalf("due: %+v, %v", due, err)
	}
	if err := s.Mark(t.Context(), due[0], MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	var kept int
	err = s.db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM inbox WHERE address <> '') + (SELECT count(*) FROM outbox WHERE address <> '')`).Scan(&kept)
	if err != nil || kept != 0 {
		t.Fatalf("%d addresses are kept, %v", kept, err)
	}
}

// execute changes the database behind the back of the store.
func execute(s *Store, statement string, args ...any) error {
	return s.db.Read(context.Background(), func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, statement, args...)
		return err
	})
}
