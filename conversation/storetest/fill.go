// Package storetest makes databases for tests, and fills them for measurements.
package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/sqlite"
)

// Filling describes the contents of a database: sessions of Telegram's private chats from
// First on, with one conversation each, in which every message is answered.
type Filling struct {
	First    int
	Sessions int
	Messages int // of each conversation, even
}

// Fill makes a database, or adds to one. It writes the rows by itself, since
// a million commits would take longer than all measurements together.
func Fill(ctx context.Context, path string, f Filling) error {
	store, err := conversation.Open(ctx, conversation.Config{Path: path}) // makes the tables
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	db, err := sqlite.Open(path, sqlite.Options{Journal: sqlite.WAL, NoSync: true, CacheKiB: 200_000})
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, statement := range fillStatements {
		_, err := tx.ExecContext(ctx, statement,
			sql.Named("first", f.First), sql.Named("last", f.First+f.Sessions-1), sql.Named("messages", f.Messages),
			sql.Named("tokens", 20), sql.Named("now", time.Now().UnixMilli()))
		if err != nil {
			return fmt.Errorf("fill %s: %w", path, err)
		}
	}
	return tx.Commit()
}

// Row ids follow from the chat and the message: sessions and conversations
// have the chat's, messages and runs a range of each chat's own.
const (
	chats      = `WITH RECURSIVE chat (id) AS (SELECT :first UNION ALL SELECT id + 1 FROM chat WHERE id < :last)`
	lines      = chats + `, line (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM line WHERE seq < :messages)`
	messageRow = `chat.id * 1000000 + line.seq` // of a message
	runRow     = `chat.id * 1000000 + (line.seq + 1) / 2`
	asked      = `line.seq % 2 = 1`
	text       = `CASE WHEN ` + asked + ` THEN 'And how was the weather on day ' || line.seq || ' of the journey?'
		ELSE 'On day ' || line.seq || ' it rained in the valley, and snow lay on the pass.' END`
)

var fillStatements = []string{
	chats + ` INSERT INTO sessions (id, key, channel, created_at)
		SELECT id, 'telegram:chat:' || id, 'telegram', :now FROM chat`,
	chats + ` INSERT INTO conversations (id, uuid, session_id, title, messages, tokens, created_at, updated_at)
		SELECT id, printf('01890000-0000-7000-8000-%012x', id), id, 'The weather', :messages, :messages * :tokens, :now, :now FROM chat`,
	lines + ` INSERT INTO runs (id, session_id, conversation_id, kind, status, model, rounds, started_at, ended_at)
		SELECT ` + runRow + `, chat.id, chat.id, 'agent', 'done', 'test-model', 1, :now, :now FROM chat, line WHERE ` + asked,
	lines + ` INSERT INTO messages (id, conversation_id, seq, run_id, role, content, tokens, created_at)
		SELECT ` + messageRow + `, chat.id, line.seq, ` + runRow + `, CASE WHEN ` + asked + ` THEN 'user' ELSE 'assistant' END, ` + text + `, :tokens, :now
		FROM chat, line`,
	lines + ` INSERT INTO inbox (id, session_id, channel, source_id, address, text, sent_at, run_id)
		SELECT ` + runRow + `, chat.id, 'telegram', 'stored:' || (` + runRow + `), '{"chat":' || chat.id || '}', ` + text + `, :now, ` + runRow + `
		FROM chat, line WHERE ` + asked,
	lines + ` INSERT INTO outbox (session_id, run_id, channel, address, text, state, sent, created_at)
		SELECT chat.id, ` + runRow + `, 'telegram', '{"chat":' || chat.id || '}', ` + text + `, 'sent', '["1"]', :now FROM chat, line WHERE NOT ` + asked,
}
