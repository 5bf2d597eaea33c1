package maintenance

import (
	"fmt"
	"path/filepath"
	"testing"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/internal/db"
	"parley/conversation/search"
	"parley/conversation/storetest"
)

// earlierRows are rows that a gateway of any earlier version may have stored: a conversation that goes on and an archived one, with a
// tool call, a message that waits, and a reply that is to be sent.
const earlierRows = `
	INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'telegram:chat:42', 'telegram', 1700000000000), (2, 'cli:work', 'cli', 1700000000000);
	INSERT INTO conversations (id, uuid, session_id, title, active, messages, tokens, created_at, updated_at) VALUES
		(1, '018bcfe5-6800-7000-8000-000000000001', 1, 'Feta', 0, 2, 4, 1700000000000, 1700000001000),
		(2, '018bcfe5-6800-7000-8000-000000000002', 1, 'Olives', 1, 4, 8, 1700000002000, 1700000003000);
	INSERT INTO runs (id, session_id, conversation_id, kind, status, model, rounds, prompt_tokens, completion_tokens, started_at, ended_at) VALUES
		(1, 1, 1, 'agent', 'done', 'small', 1, 20, 3, 1700000000000, 1700000001000), (2, 1, 2, 'agent', 'done', 'small', 2, 50, 6, 1700000002000, 1700000003000);
	INSERT INTO messages (conversation_id, seq, run_id, role, content, tool_calls, tool_call_id, tool_name, tokens, sender, source_id, created_at) VALUES
		(1, 1, 1, 'user', 'is feta a cheese?', NULL, NULL, NULL, 2, '{"id":"42","name":"Ada"}', '42:1', 1700000000000),
		(1, 2, 1, 'assistant', 'it is', NULL, NULL, NULL, 2, NULL, NULL, 1700000001000),
		(2, 1, 2, 'user', 'and what time is it?', NULL, NULL, NULL, 2, '{"id":"42","name":"Ada"}', '42:2', 1700000002000),
		(2, 2, 2, 'assistant', '', '[{"id":"call_1","name":"clock","arguments":"{}"}]', NULL, NULL, 2, NULL, NULL, 1700000002000),
		(2, 3, 2, 'tool', 'noon', NULL, 'call_1', 'clock', 2, NULL, NULL, 1700000002000),
		(2, 4, 2, 'assistant', 'it is noon', NULL, NULL, NULL, 2, NULL, NULL, 1700000003000);
	INSERT INTO inbox (id, session_id, channel, source_id, address, sender, text, sent_at, run_id) VALUES
		(1, 1, 'telegram', '42:1', '', '{"id":"42","name":"Ada"}', '', 1700000000000, 1), (2, 1, 'telegram', '42:2', '', '{"id":"42","name":"Ada"}', '', 1700000002000, 2),
		(3, 1, 'telegram', '42:3', '{"chat":42}', '{"id":"42","name":"Ada"}', 'and now?', 1700000004000, NULL);`

// A database of each earlier version can be verified and copied. It is brought up to date, with all that it holds.
func TestDatabaseOfEachEarlierVersionIsUpgraded(t *testing.T) {
	t.Parallel()
	versions, err := db.SchemaVersions()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", version))
		if err := db.MakeSchema(t.Context(), path, version); err != nil {
			t.Fatal(err)
		}
		execute(t, path, earlierRows)
		channel, name := "", "" // replies have one since version 9
		if version >= 9 {
			channel, name = "channel, ", "'telegram', "
		}
		execute(t, path, `INSERT INTO outbox (session_id, run_id, `+channel+`address, text, created_at) VALUES (1, 2, `+name+`'{"chat":42}', 'it is noon', 1700000003000)`)
		if texts, _ := mustVerify(t, path); len(texts) > 0 {
			t.Errorf("version %d: %q", version, texts)
		}
		path = mustBackup(t, path)
		store := storetest.Open(t, path)
		storetest.Chores(t, store)
		list, _, err := catalog.New(store).Conversations(t.Context(), catalog.ConversationQuery{Key: "telegram:chat:42"})
		if err != nil || len(list) != 2 || list[0].Title != "Olives" || list[0].Messages != 4 || !list[0].Active || list[1].Active {
			t.Errorf("version %d: %+v, %v", version, list, err)
		}
		if turn := storetest.Begin(t, store, "telegram:chat:42", 1000); len(turn.History) != 4 || len(turn.Waiting) != 1 || turn.Waiting[0].Text != "and now?" {
			t.Errorf("version %d: %+v", version, turn)
		}
		due, err := store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: "telegram:chat:42", Limit: 5})
		if err != nil || len(due) != 1 || due[0].Channel != "telegram" || due[0].Text != "it is noon" {
			t.Errorf("version %d: due are %+v, %v", version, due, err)
		}
		hits, err := search.New(store).Find(t.Context(), search.Query{Key: "telegram:chat:42", Words: "feta", Limit: 5})
		if err != nil || len(hits) != 1 {
			t.Errorf("version %d: found %+v, %v", version, hits, err)
		}
		if texts, _ := mustVerify(t, path); len(texts) > 0 {
			t.Errorf("version %d: %q", version, texts)
		}
	}
}
