package conversation_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/catalog"
	"parley/conversation/kept"
	"parley/conversation/storetest"
	"parley/internal/dbdamage"
)

// A failed tool call is recognized by its flag, and in rows of earlier versions, which have none, by the
// beginning of its result.
func TestFailedToolCallsOfAnEarlierDatabase(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 17,
		`INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'telegram:chat:42', 'telegram', 0)`,
		`INSERT INTO conversations (id, uuid, session_id, messages, tokens, created_at, updated_at) VALUES (1, 'a', 1, 4, 4, 0, 0)`,
		`INSERT INTO messages (conversation_id, seq, run_id, role, content, tool_calls, tool_call_id, tool_name, tokens, created_at) VALUES
			(1, 1, 0, 'user', 'error: asked', NULL, NULL, NULL, 1, 0),
			(1, 2, 0, 'assistant', '', '[{"id":"c1","name":"x","arguments":"{}"},{"id":"c2","name":"x","arguments":"{}"}]', NULL, NULL, 1, 0),
			(1, 3, 0, 'tool', 'error: broken', NULL, 'c1', 'x', 1, 0),
			(1, 4, 0, 'tool', 'fine', NULL, 'c2', 'x', 1, 0)`)
	s := storetest.Open(t, path)
	storetest.Accept(t, s, conversation.Inbound{Key: storetest.Chat, SourceID: "1", Text: "again", At: time.Now()})
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	if _, err := s.Commit(t.Context(), conversation.Run{
		Key: storetest.Chat, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation, StartedAt: time.Now(),
		Messages: []conversation.Message{
			{Role: conversation.RoleUser, Content: "again", Tokens: 1},
			{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "c3", Name: "x"}, {ID: "c4", Name: "x"}}, Tokens: 1},
			{Role: conversation.RoleTool, Content: "error: is the name of a song", ToolCallID: "c3", ToolName: "x", Tokens: 1},
			{Role: conversation.RoleTool, Content: "error: broken", ToolCallID: "c4", ToolName: "x", Failed: true, Tokens: 1},
		},
	}); err != nil {
		t.Fatal(err)
	}
	storetest.Accept(t, s, conversation.Inbound{Key: storetest.Chat, SourceID: "2", Text: "and?", At: time.Now()})
	want := map[int64]bool{3: true, 8: true}
	history := storetest.Begin(t, s, storetest.Chat, 1000).History
	if len(history) != 8 {
		t.Fatalf("%d messages", len(history))
	}
	for _, m := range history {
		if m.Failed != want[m.Seq] {
			t.Errorf("message %d, %s %q: failed is %t", m.Seq, m.Role, m.Content, m.Failed)
		}
	}
}

// The rest of a killed import of an earlier version is not visible, and is deleted by the next import.
func TestUnfinishedImportOfAnEarlierVersionIsSwept(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 17,
		`INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'telegram:chat:42', 'telegram', 0)`,
		`INSERT INTO conversations (id, uuid, session_id, title, active, deleted, messages, tokens, created_at, updated_at) VALUES (1, 'a', 1, 'half', 0, 2, 2, 2, 0, 0)`,
		`INSERT INTO messages (conversation_id, seq, run_id, role, content, tokens, created_at) VALUES (1, 1, 0, 'user', 'imported', 1, 0)`)
	s := storetest.Open(t, path)
	if _, err := catalog.New(s).Find(t.Context(), "a"); err == nil {
		t.Error("half an import is found")
	}
	im, err := archive.New(s).Import(t.Context(), storetest.Chat)
	if err != nil {
		t.Fatal(err)
	}
	said := []conversation.Message{storetest.User("imported"), storetest.Assistant("yes"), storetest.User("bye")}
	if added, err := im.Add(t.Context(), archive.Imported{ID: "a", Messages: said}); !added || err != nil {
		t.Errorf("it can't be imported again: %v, %v", added, err)
	}
	if err := im.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := catalog.New(s).Find(t.Context(), "a"); err != nil || c.Messages != 3 {
		t.Errorf("imported again: %+v, %v", c, err)
	}
}

// Waiting, answered and withdrawn messages of an earlier version keep their states.
func TestInboxOfAnEarlierDatabase(t *testing.T) {
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 22,
		`INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'web:a', 'web', 0)`,
		`INSERT INTO inbox (id, session_id, channel, source_id, address, sender, text, fingerprint, sent_at, run_id) VALUES
			(1, 1, 'web', 'withdrawn', '', '{}', '', 'x', 0, 0),
			(2, 1, 'web', 'waits', '', '{}', 'hello', 'x', 0, NULL),
			(3, 1, 'web', 'sent', '', '{}', 'hello', NULL, 0, NULL)`)
	s := storetest.Open(t, path)
	for id, want := range map[string]conversation.Status{"withdrawn": conversation.StatusWithdrawn, "waits": conversation.StatusWaiting} {
		if a, err := kept.New(s).Answer(t.Context(), "web", id); err != nil || a.State != want {
			t.Errorf("%s: %q, %v", id, a.State, err)
		}
	}
	if _, err := kept.New(s).Answer(t.Context(), "web", "sent"); !errors.Is(err, kept.ErrNoAnswer) {
		t.Errorf("what is not kept: %v", err)
	}
	turn := storetest.Begin(t, s, "web:a", 1000)
	if len(turn.Waiting) != 2 || !turn.Waiting[0].Keep || turn.Waiting[1].Keep || turn.Waiting[0].Replaces != (conversation.MessageID{}) {
		t.Fatalf("%+v", turn.Waiting)
	}
	run := storetest.Answered("web:a", turn, "answer")
	run.Replies[0].Keep = true
	storetest.Commit(t, s, run)
	if a, err := kept.New(s).Answer(t.Context(), "web", "waits"); err != nil || a.State != conversation.StatusDone || a.Text != "answer" {
		t.Errorf("%+v, %v", a, err)
	}
}

// The inbox has a state for withdrawn messages, and a column for kept replies.
func TestInboxHasNamedStates(t *testing.T) {
	s := storetest.New(t)
	kept := storetest.Say(storetest.Chat, 1, "one")
	kept.Keep = true
	storetest.Accept(t, s, kept, storetest.Say(storetest.Chat, 2, "two"))
	for _, id := range []string{kept.SourceID, storetest.Say(storetest.Chat, 2, "").SourceID} {
		if _, err := s.Withdraw(t.Context(), conversation.Account{Channel: "telegram"}, id); err != nil {
			t.Fatal(err)
		}
	}
	if n := storetest.Count(t, s, `SELECT count(*) FROM inbox WHERE withdrawn = 1 AND text = ''`); n != 2 {
		t.Errorf("%d of 2 are withdrawn", n)
	}
	if n := storetest.Count(t, s, `SELECT count(*) FROM inbox WHERE keep = 1`); n != 1 {
		t.Errorf("%d replies are kept", n)
	}
}

// The database of an earlier version is opened although a page of its inbox is damaged.
func TestDamagedInboxOfAnEarlierDatabaseIsMigrated(t *testing.T) {
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 22, `INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'telegram:chat:42', 'telegram', 0)`,
		`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
		INSERT INTO inbox (session_id, channel, source_id, address, sender, text, sent_at, run_id) SELECT 1, 'telegram', i, '', '{}', 'a text of some length', 0, i % 2 FROM n`)
	leaves := dbdamage.Leaves(t, path, "inbox")
	dbdamage.Destroy(t, path, leaves[len(leaves)/2])
	s := storetest.Open(t, path)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "hello"))
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Waiting) != 1 {
		t.Errorf("%+v", turn.Waiting)
	}
}
