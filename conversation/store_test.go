package conversation_test

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

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/internal/db"
	"parley/conversation/metadata"
	"parley/conversation/storetest"
)

func TestMessageDeliveredTwiceIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for range 3 {
		storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "one"), storetest.Say(storetest.Chat, 2, "two"))
	}
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	if len(turn.Waiting) != 2 || turn.Waiting[0].Text != "one" || turn.Waiting[1].Text != "two" {
		t.Fatalf("waiting: %+v", turn.Waiting)
	}
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "answer"))
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "one"), storetest.Say(storetest.Chat, 2, "two"))
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Waiting) != 0 {
		t.Fatalf("a message that was answered waits again: %+v", turn.Waiting)
	}
}

func TestCursorMovesOnlyWithItsBatch(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	if _, err := s.Accept(ctx, []conversation.Cursor{{Name: "telegram:1", Value: "17"}}, storetest.Say(storetest.Chat, 1, "one")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Cursor(ctx, "telegram:1"); got != "17" || err != nil {
		t.Fatalf("cursor %q, %v", got, err)
	}
	if got, err := s.Cursor(ctx, "telegram:2"); got != "" || err != nil {
		t.Fatalf("unknown cursor: %q, %v", got, err)
	}
	broken := storetest.Say(storetest.Chat, 2, "two")
	broken.Key = "" // no session has this name, but the failure is the database's own below
	storetest.FailInserts(t, s, "inbox", "true")
	if _, err := s.Accept(ctx, []conversation.Cursor{{Name: "telegram:1", Value: "18"}}, broken); err == nil {
		t.Fatal("a batch that can't be stored was accepted")
	}
	if got, _ := s.Cursor(ctx, "telegram:1"); got != "17" {
		t.Fatalf("the cursor moved to %s without its batch", got)
	}
}

func TestTextWithAnyBytesIsStored(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	huge := strings.Repeat("0123456789abcdef", 1<<16)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "a\x00b\xff\xfec"), storetest.Say(storetest.Chat, 2, huge), storetest.Say(storetest.Chat, 3, ""))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	if got := turn.Waiting[0].Text; got != "a\uFFFDb\uFFFDc" {
		t.Errorf("hostile text came back as %q", got)
	}
	if turn.Waiting[1].Text != huge || turn.Waiting[2].Text != "" {
		t.Error("a huge or an empty text changed")
	}
}

func TestCommitTwiceStoresOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "one"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	run := storetest.Answered(storetest.Chat, turn, "answer")
	storetest.Commit(t, s, run)
	if _, err := s.Commit(t.Context(), run); !errors.Is(err, conversation.ErrSettled) {
		t.Fatalf("the second commit of a run gave %v", err)
	}
	page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: turn.Conversation.ID, Turns: 10})
	if err != nil || !cmp.Equal(storetest.Texts(page.Messages), []string{"one", "answer"}) {
		t.Fatalf("history: %q, %v", storetest.Texts(page.Messages), err)
	}
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 10})
	if err != nil || len(due) != 1 {
		t.Fatalf("%d deliveries for one answer, %v", len(due), err)
	}
}

func TestBeginReturnsWholeTurnsWithinTheBudget(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := 1; i <= 10; i++ {
		storetest.Turn(t, s, storetest.Chat, i)
	}
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 11, "next"))
	for budget, want := range map[int][]string{
		1000: nil, // all, checked below
		45:   {"question 9", "answer 9", "question 10", "answer 10"},
		30:   {"question 10", "answer 10"},
		5:    {"question 10", "answer 10"}, // the newest turn is always returned
	} {
		turn := storetest.Begin(t, s, storetest.Chat, budget)
		if want == nil {
			if len(turn.History) != 20 || turn.Older != 0 {
				t.Errorf("budget %d: %d messages, %d older", budget, len(turn.History), turn.Older)
			}
			continue
		}
		if diff := cmp.Diff(want, storetest.Texts(turn.History)); diff != "" || turn.Older != int64(20-len(want)) {
			t.Errorf("budget %d: %d older, %s", budget, turn.Older, diff)
		}
	}
}

func TestNewArchivesTheOldConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "/new second"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	storetest.Commit(t, s, conversation.Run{Key: storetest.Chat, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting[:1], Effect: conversation.Effect{Archive: true, Title: "second"}})
	storetest.Turn(t, s, storetest.Chat, 3)

	active, err := s.Active(t.Context(), storetest.Chat)
	if err != nil || active.Title != "second" || active.Messages != 2 || active.ID == turn.Conversation.ID {
		t.Fatalf("active: %+v, %v", active, err)
	}
	list, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: storetest.Chat, Limit: 10})
	if err != nil || len(list) != 2 || list[1].ID != turn.Conversation.ID || list[1].Active {
		t.Fatalf("list: %+v, %v", list, err)
	}
	if err := s.Resume(t.Context(), storetest.Chat, turn.Conversation.ID); err != nil {
		t.Fatal(err)
	}
	if active, _ := s.Active(t.Context(), storetest.Chat); active.ID != turn.Conversation.ID {
		t.Fatalf("resumed %s, active is %s", turn.Conversation.ID, active.ID)
	}
	if err := s.Resume(t.Context(), "telegram:chat:7", turn.Conversation.ID); !errors.Is(err, conversation.ErrNotFound) {
		t.Fatalf("another chat resumed this one's conversation: %v", err)
	}
}

func TestRetryReplacesTheAnswerAndKeepsItInTheArchive(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "/retry"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	storetest.Commit(t, s, conversation.Run{Key: storetest.Chat, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting[:1],
		Conversation: turn.Conversation, Effect: conversation.Effect{Replace: 1},
		Messages: []conversation.Message{{Role: conversation.RoleAssistant, Content: "better", Tokens: 10}}})
	page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: turn.Conversation.ID, Turns: 5})
	if err != nil || !cmp.Equal(storetest.Texts(page.Messages), []string{"question 1", "better"}) {
		t.Fatalf("history: %q, %v", storetest.Texts(page.Messages), err)
	}
	var kept int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM messages WHERE content = 'answer 1'`).Scan(&kept); err != nil || kept != 1 {
		t.Fatalf("the first answer is gone from the archive: %d, %v", kept, err)
	}
}

func TestHistoryPagesBackToTheBeginning(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := 1; i <= 7; i++ {
		storetest.Turn(t, s, storetest.Chat, i)
	}
	c, _ := s.Active(t.Context(), storetest.Chat)
	var seen []string
	for skip := 0; ; skip += 3 {
		page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID, SkipTurns: skip, Turns: 3})
		if err != nil {
			t.Fatal(err)
		}
		seen = append(storetest.Texts(page.Messages), seen...)
		if !page.More {
			break
		}
	}
	if len(seen) != 14 || seen[0] != "question 1" || seen[13] != "answer 7" {
		t.Fatalf("pages: %q", seen)
	}
}

// A page in turns has whole turns from either end and within the given bounds, also if an answer has no
// text.
func TestPagesInWholeTurns(t *testing.T) {
	s := storetest.New(t)
	done := mustAppend(t, s, "",
		conversation.Message{Role: conversation.RoleUser, Content: "a"}, conversation.Message{Role: conversation.RoleUser, Content: "b"}, conversation.Message{Role: conversation.RoleAssistant, Content: "c"},
		conversation.Message{Role: conversation.RoleUser, Content: "d"}, conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "1", Name: "f"}}}, conversation.Message{Role: conversation.RoleTool, Content: "e", ToolCallID: "1"},
		conversation.Message{Role: conversation.RoleSystem, Content: "internal"}, conversation.Message{Role: conversation.RoleUser, Content: "f"}, conversation.Message{Role: conversation.RoleAssistant, Content: "g"})
	for _, tt := range []struct {
		query conversation.MessageQuery
		want  string
		more  bool
	}{
		{conversation.MessageQuery{Turns: 1}, "f g", true},
		{conversation.MessageQuery{Turns: 1, SkipTurns: 1}, "d", true},
		{conversation.MessageQuery{Turns: 1, SkipTurns: 1, View: conversation.ViewTalk}, "d  e", true},
		{conversation.MessageQuery{Turns: 2, View: conversation.ViewAll}, "d  e internal f g", true},
		{conversation.MessageQuery{Turns: 1, SkipTurns: 2}, "a b c", false},
		{conversation.MessageQuery{Turns: 9}, "a b c d f g", false},
		{conversation.MessageQuery{Turns: 1, SkipTurns: 3}, "", false},
		{conversation.MessageQuery{Turns: 1, Forward: true}, "a b c", true},
		{conversation.MessageQuery{Turns: 2, SkipTurns: 1, Forward: true}, "d f g", false},
		{conversation.MessageQuery{Turns: 1, Before: 8}, "d", true},
		{conversation.MessageQuery{Turns: 1, After: 3, Forward: true}, "d", true},
	} {
		tt.query.Conversation = done.Conversation.ID
		page, err := s.Messages(t.Context(), tt.query)
		if got := strings.Join(storetest.Texts(page.Messages), " "); got != tt.want || page.More != tt.more || err != nil {
			t.Errorf("%+v: %q, more %v, %v", tt.query, got, page.More, err)
		}
	}
	for _, q := range []conversation.MessageQuery{{SkipTurns: 1}, {Turns: 1, Limit: 1}, {Turns: -1}, {Turns: 1, Metadata: metadata.Filter{"a": "b"}}} {
		if _, err := s.Messages(t.Context(), q); !errors.Is(err, conversation.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestDeliveriesSurviveAndEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outbox.db")
	s := storetest.Open(t, path)
	for i := 1; i <= 3; i++ {
		storetest.Turn(t, s, storetest.Chat, i)
	}
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 10})
	if err != nil || len(due) != 3 {
		t.Fatalf("%d due, %v", len(due), err)
	}
	due[0].Sent = []string{"100"}
	if err := errors.Join(s.Mark(t.Context(), due[0], conversation.MarkPart, ""), s.Mark(t.Context(), due[1], conversation.MarkSent, ""), s.Mark(t.Context(), due[2], conversation.MarkFailed, "blocked")); err != nil {
		t.Fatal(err)
	}
	s.Close()

	s = storetest.Open(t, path)
	keys, err := s.Due(t.Context(), conversation.Scope{Channel: "telegram"})
	if err != nil || !cmp.Equal(keys, []conversation.Key{storetest.Chat}) {
		t.Fatalf("due sessions %v, %v", keys, err)
	}
	left, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 10})
	if err != nil || len(left) != 1 || !cmp.Equal(left[0].Sent, []string{"100"}) {
		t.Fatalf("left: %+v, %v", left, err)
	}
	for _, scope := range []conversation.Scope{{Channel: "cli"}, {Channel: "telegram", Key: "telegram:chat:7"}} {
		if keys, _ := s.Due(t.Context(), scope); len(keys) != 0 {
			t.Errorf("scope %+v has the session of another: %v", scope, keys)
		}
	}
}

func TestManySessionsWriteAtOnceWithoutLossOrMixing(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var all sync.WaitGroup
	for c := range 20 {
		key := conversation.Key(fmt.Sprintf("telegram:chat:%d", c))
		all.Go(func() {
			for i := 1; i <= 10; i++ {
				storetest.Turn(t, s, key, i)
			}
		})
	}
	all.Wait()
	for c := range 20 {
		key := conversation.Key(fmt.Sprintf("telegram:chat:%d", c))
		storetest.Accept(t, s, storetest.Say(key, 99, "last"))
		turn := storetest.Begin(t, s, key, 1000)
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

func TestNewerSchemaIsRefusedByName(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "newer.db")
	s := storetest.Open(t, path)
	if err := execute(s, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, TRUE)`); err != nil {
		t.Fatal(err)
	}
	newest := db.NewestSchema
	if storetest.OnPostgres() { // where older gateways may go on beside newer ones
		if err := execute(s, `UPDATE compatibility SET oldest = 99`); err != nil {
			t.Fatal(err)
		}
		newest = db.NewestServerSchema
	}
	known, err := newest()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err = conversation.Open(t.Context(), conversation.Config{Path: s.Path()})
	if err == nil || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), fmt.Sprintf("only up to %d:", known)) {
		t.Fatalf("a newer schema gave %v", err)
	}
}

func TestUnusableFilesAreExplained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "missing", "x.db"): "does not exist",
		dir:                                   "it is a folder: name a file in it",
	} {
		if _, err := conversation.Open(t.Context(), conversation.Config{Path: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestEveryConnectionIsDurable(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	s := storetest.New(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		err := s.DB().Read(t.Context(), func(ctx context.Context, conn *sql.Conn) error {
			return conn.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("%s = %s, want %s (%v)", pragma, got, want, err)
		}
	}
}

func TestMessagesAreIndexedAMomentLaterAndOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 20 {
		storetest.Turn(t, s, storetest.Chat, i)
	}
	found := func() int {
		return int(storetest.Count(t, s, db.Either(`SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'question'`,
			`SELECT count(*) FROM message_words WHERE strpos(said, 'question') > 0`)))
	}
	for deadline := time.Now().Add(90 * time.Second); found() != 20; {
		if time.Now().After(deadline) {
			t.Fatal("the messages are never indexed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	storetest.Turn(t, s, storetest.Chat, 20)
	storetest.Chores(t, s)
	if n := found(); n != 21 {
		t.Fatalf("%d of 21 questions are found", n)
	}
	checkIndex(t, s)
}

// An address may contain the token of an interaction, with which anybody could answer as the bot. It is
// deleted when it is not needed any more.
func TestAddressesAreDeletedAfterUse(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1})
	if err != nil || due[0].Address == "" {
		t.Fatalf("due: %+v, %v", due, err)
	}
	if err := s.Mark(t.Context(), due[0], conversation.MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	var kept int
	err = s.DB().QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM inbox WHERE address <> '') + (SELECT count(*) FROM outbox WHERE address <> '')`).Scan(&kept)
	if err != nil || kept != 0 {
		t.Fatalf("%d addresses are kept, %v", kept, err)
	}
}

// execute changes the database without the store.
func execute(s *conversation.Store, statement string, args ...any) error {
	return s.DB().Read(context.Background(), func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, statement, args...)
		return err
	})
}
