package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"parley/conversation"
	"parley/conversation/dbfile"
	"parley/conversation/search"
)

// searcher looks for what answers a question in one talk.
type searcher interface {
	// search returns the indexes of up to limit messages, the best first.
	search(ctx context.Context, question string, limit int) ([]int, error)
}

// stored is the search of the store, as /search and conversation_recall use it, in the session of one talk.
type stored struct {
	searcher *search.Searcher
	key      conversation.Key
}

// keyOf returns the session that holds a talk.
func keyOf(t talk) conversation.Key { return conversation.Key("api:" + t.name) }

// appendBatch is how many messages are stored at once.
const appendBatch = 200

// storeTalk adds a talk to the database as a session of its own.
func storeTalk(ctx context.Context, store *conversation.Store, t talk) (stored, error) {
	s := stored{search.New(store), keyOf(t)}
	for from := 0; from < len(t.messages); from += appendBatch {
		var batch []conversation.Message
		for _, m := range t.messages[from:min(from+appendBatch, len(t.messages))] {
			role := conversation.RoleAssistant
			if m.user {
				role = conversation.RoleUser
			}
			batch = append(batch, conversation.Message{Role: role, Content: m.text, At: m.at, Tokens: len(m.text) / 4})
		}
		if _, err := store.Append(ctx, s.key, "", batch...); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s stored) search(ctx context.Context, question string, limit int) ([]int, error) {
	hits, err := s.searcher.Find(ctx, search.Query{Key: s.key, Words: question, Limit: limit})
	if err != nil {
		return nil, err
	}
	var found []int
	for _, h := range hits {
		if h.Key != s.key {
			return nil, fmt.Errorf("a search in %s found a message of %s", s.key, h.Key)
		}
		found = append(found, int(h.Seq-1))
	}
	return found, nil
}

// plain is what SQLite offers by itself: BM25 over English stems, of messages that have any word of the question.
type plain struct{ db *sql.DB }

// plainOf returns the texts of a talk in a database of their own, in memory.
func plainOf(ctx context.Context, t talk) (p plain, err error) {
	if p.db, err = dbfile.OpenMemory(); err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.db.Close())
		}
	}()
	if _, err := p.db.ExecContext(ctx, `CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'porter unicode61')`); err != nil {
		return p, err
	}
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return p, err
	}
	defer tx.Rollback()
	for i, m := range t.messages {
		if _, err := tx.ExecContext(ctx, `INSERT INTO texts (rowid, text) VALUES (?, ?)`, i, m.text); err != nil {
			return p, err
		}
	}
	return p, tx.Commit()
}

var word = regexp.MustCompile(`[\p{L}\p{N}\p{M}]+`)

func (p plain) search(ctx context.Context, question string, limit int) (found []int, err error) {
	words := word.FindAllString(question, -1)
	rows, err := p.db.QueryContext(ctx, `SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts), rowid LIMIT ?`,
		`"`+strings.Join(words, `" OR "`)+`"`, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		if err := rows.Scan(&i); err != nil {
			return nil, err
		}
		found = append(found, i)
	}
	return found, rows.Err()
}
