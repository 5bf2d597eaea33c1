package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/catalog"
)

// TestExampleOpensAndReads fails if the schema has changed and the example was not made again with
// `make example-db`.
func TestExampleOpensAndReads(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../../conversations.db.example")
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "kept.db")
	if err := os.WriteFile(kept, example, 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	if err := write(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{kept, fresh} {
		checkHistory(t, path)
	}
}

func checkHistory(t *testing.T, path string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := catalog.New(store).Conversations(t.Context(), catalog.ConversationQuery{Key: "telegram:chat:5550101", Limit: 10})
	if err != nil || len(list) != 2 || list[0].Title != "Packing list" || list[1].Title != "Three days in Lisbon" {
		t.Fatalf("conversations: %+v, %v", list, err)
	}
	page, err := store.Messages(t.Context(), conversation.MessageQuery{Conversation: list[1].ID, Turns: 10})
	if err != nil || len(page.Messages) != 6 || !strings.Contains(page.Messages[5].Content, "20:47 in Lisbon") {
		t.Fatalf("history: %+v, %v", page, err)
	}
	for _, scope := range []conversation.Scope{{Channel: "telegram"}, {Channel: "cli"}} {
		waiting, err := store.Waiting(t.Context(), scope)
		due, dueErr := store.Due(t.Context(), scope)
		sessions, _, listErr := catalog.New(store).Sessions(t.Context(), catalog.SessionQuery{Channel: scope.Channel, Limit: 1})
		if err := errors.Join(err, dueErr, listErr); err != nil || len(waiting) != 0 || len(due) != 0 || len(sessions) == 0 {
			t.Errorf("%s has work left: %v waiting, %v due, %v", scope.Channel, waiting, due, err)
		}
	}
	for what, query := range map[string]string{
		"talk in a group that was overheard": `SELECT count(*) FROM group_talk WHERE shown = 1`,
		"a picture":                          `SELECT count(*) FROM messages WHERE parts IS NOT NULL`,
		"a file with its text":               `SELECT count(*) FROM messages WHERE files IS NOT NULL AND content LIKE '%roof sheet%'`,
		"a summary":                          `SELECT count(*) FROM summaries`,
		"rules and decisions":                `SELECT count(*) FROM conversations WHERE state LIKE '%2.50 m%' AND state LIKE '%corrugated%'`,
		"metadata of a session":              `SELECT count(*) FROM sessions WHERE metadata IS NOT NULL`,
		"metadata of a conversation":         `SELECT count(*) FROM conversations WHERE metadata IS NOT NULL`,
		"metadata of messages":               `SELECT count(*) FROM messages WHERE metadata IS NOT NULL`,
		"instructions in force":              `SELECT count(*) FROM runs JOIN run_instructions ON hash = instructions`,
		"kept replies":                       `SELECT count(*) FROM outbox WHERE state = 'kept'`,
		"a trace with a call of a tool":      `SELECT count(*) FROM runs WHERE steps LIKE '%call_2%'`,
		"a chat in every channel":            `SELECT count(DISTINCT channel) = 5 FROM sessions`,
	} {
		var n int
		if err := store.DB().QueryRowContext(t.Context(), query).Scan(&n); err != nil || n == 0 {
			t.Errorf("%s lacks %s: %v", filepath.Base(path), what, err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Errorf("the schema of %s is not today's: opening changed the file", filepath.Base(path))
	}
}
