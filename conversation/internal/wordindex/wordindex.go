// Package wordindex maintains the full-text index of the messages and of long files: a table with their words, and a table of
// ranks with the stemmed words for ranking. On SQLite they are FTS5 tables; listed.go describes those on PostgreSQL.
//
// Messages are added to the index in the background, because adding many at once is much cheaper than adding each with its
// commit. A cursor stores the last added message, so that a crash leaves none out. FTS5 keeps deleted words in older
// segments of the index until it merges them, so all segments are merged after a deletion.
package wordindex

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// ChoreName names the chore that brings the index up to date. Chores that delete messages run after it: a message that is
// not in the index yet can't be taken out of it.
const ChoreName = "the search index"

// UpdateChores returns the chores that bring the index of the database at a path up to date.
func UpdateChores(path string) []db.Chore {
	if db.IsURL(path) {
		return []db.Chore{{Name: ChoreName, Step: updateListed}}
	}
	return []db.Chore{
		{Name: ChoreName, Step: update, Skip: skip},
		{Name: RanksChoreName, Step: updateRanks, Skip: skipRanks},
	}
}

// ScrubChore returns the chore that removes deleted words from the index. In the list of chores it must come after those that
// delete messages, so that it runs once for many deletions.
func ScrubChore() db.Chore {
	return db.Chore{Name: "deleted words in the search index", Step: scrub, Needs: ChoreName, Patient: true}
}

const (
	batchRows  = 50       // the maximum number of messages in one step, so that no write waits long
	batchBytes = 64 << 10 // the maximum number of bytes of their text; a longer message is added alone
)

// update adds the oldest messages that are missing in the table of words, as many as fit into a transaction. done reports that
// none is missing.
func update(ctx context.Context, tx db.Tx) (done bool, err error) {
	batch, err := next(ctx, tx, "messages_fts", batchBytes)
	if err != nil || len(batch) == 0 {
		return err == nil, err
	}
	last := batch[len(batch)-1].id
	for _, m := range sorted(batch) {
		if err := m.add(ctx, tx); err != nil {
			return false, err
		}
		if err := turns.Store(ctx, tx, m.conversation, m.seq); err != nil {
			return false, err
		}
	}
	return advance(ctx, tx, "messages_fts", last)
}

// advance moves a cursor to a message, after a step of its chore. done reports that none comes after it.
func advance(ctx context.Context, tx db.Tx, cursor string, to int64) (done bool, err error) {
	if err := Merge(ctx, tx); err != nil {
		return false, err
	}
	err = tx.QueryRowContext(ctx, `
		UPDATE cursors SET value = ?1 WHERE name = ?2 RETURNING NOT EXISTS (SELECT 1 FROM messages WHERE id > ?1)`, to, cursor).Scan(&done)
	return done, err
}

// sorted sorts messages by their rows in the index, since FTS5 begins a new segment if a row is lower than the one before.
func sorted(batch []message) []message {
	slices.SortFunc(batch, func(a, b message) int { return cmp.Compare(a.rowID(), b.rowID()) })
	return batch
}

// skip adds the next messages, and leaves out those that can't be read. It returns db.ErrStuck if the index itself is damaged.
func skip(ctx context.Context, s *db.Skipper) error {
	return skipBehind(ctx, s, "messages_fts", message.add)
}

// skipBehind is skip for the table of a cursor. one adds a message to that table.
func skipBehind(ctx context.Context, s *db.Skipper, cursor string, one func(message, context.Context, db.Tx) error) error {
	add := func(ctx context.Context, tx db.Tx, ids []int64) error {
		for _, id := range ids {
			batch, err := read(ctx, tx, `m.id = ?`, id, 1, batchBytes)
			if err != nil {
				return err
			}
			for _, m := range batch {
				if err := one(m, ctx, tx); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return s.Rows(ctx, "messages", cursor, batchRows, add, func(id int64, err error) error {
		if _, unread := read(ctx, s, `m.id = ?`, id, 1, batchBytes); unread == nil {
			return fmt.Errorf("%w: %w", db.ErrStuck, err)
		}
		s.NoteDamage("messages, which are not found", err)
		return nil
	})
}

// MessagesDeleted moves the cursors of the index and of the vectors back to the newest message that is left. When the last rows
// of a table are deleted, SQLite gives their ids to new rows, which would be skipped.
func MessagesDeleted(ctx context.Context, tx db.Tx) error {
	if _, err := tx.ExecContext(ctx, `
		UPDATE embeddings SET done = (SELECT coalesce(max(id), 0) FROM messages) WHERE done > (SELECT coalesce(max(id), 0) FROM messages)`); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE cursors SET value = (SELECT coalesce(max(id), 0) FROM messages)
		WHERE name IN ('messages_fts', 'messages_ranks') AND CAST(value AS BIGINT) > (SELECT coalesce(max(id), 0) FROM messages)`)
	return err
}

// MoveSession changes the session of messages in the index. Messages that are not in the index yet are added later, with
// their new session.
func MoveSession(ctx context.Context, tx db.Tx, from, to int64) error {
	var ranked int64
	if err := tx.QueryRowContext(ctx, rankedUpTo).Scan(&ranked); err != nil {
		return err
	}
	for after := int64(0); ; {
		batch, err := indexedOf(ctx, tx, from, after)
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, m := range batch {
			if err := deleteRow(ctx, tx, m.rowID()); err != nil {
				return err
			}
			m.session = to
			if err := m.add(ctx, tx); err != nil {
				return err
			}
			if m.id > ranked {
				continue
			}
			if err := m.addRanks(ctx, tx); err != nil {
				return err
			}
		}
		after = batch[len(batch)-1].id
	}
}

// rankedUpTo selects the id up to which messages are in the table of ranks. On PostgreSQL it selects the largest number, after it
// has waited for other processes that add messages. isIndexed is the condition that a message m is in the table of words.
var (
	rankedUpTo = db.Either(`SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_ranks'`,
		`SELECT 9223372036854775807 - 0 * count(*) FROM (SELECT 1 FROM unindexed_messages FOR UPDATE) AS missing`)
	isIndexed = db.Either(`m.id <= (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts')`,
		`NOT EXISTS (SELECT 1 FROM unindexed_messages u WHERE u.message_id = m.id)`)
)

// indexedOf returns the next messages of a session, after an id, that are in the table of words.
func indexedOf(ctx context.Context, tx db.Tx, session, after int64) (batch []message, err error) {
	rows, err := tx.QueryContext(ctx, selectMessages+`
		WHERE c.session_id = ? AND m.id > ? AND `+isIndexed+`
		ORDER BY m.id LIMIT ?`, session, after, batchRows)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		m, err := scan(rows)
		if err != nil {
			return nil, err
		}
		batch = append(batch, m)
	}
	return batch, rows.Err()
}

// RowID returns the row of a message in the index. The rows of a conversation are together, so that a search in it does not read
// others. seq must be less than 1<<23.
func RowID(conversation, seq int64) int64 { return conversation<<24 | seq }

// ConversationOf returns the conversation of a row of the index.
func ConversationOf(rowID int64) int64 { return rowID >> 24 }

// SeqOf returns the seq of the message at a row of the index.
func SeqOf(rowID int64) int64 { return rowID & (1<<24 - 1) }

// Pages of files have rows in the index, too. They come after those of all messages of their conversation.
const (
	pageBit    = 1 << 23
	lastInside = 1<<24 - 1
)

// FirstPage returns the row of the first page of a conversation's files.
func FirstPage(conversation int64) int64 { return RowID(conversation, pageBit) }

// LastPage returns the last row that a page of a conversation's files can have.
func LastPage(conversation int64) int64 { return RowID(conversation, lastInside) }

// IsPage reports whether a row of the index is a page of a file.
func IsPage(rowID int64) bool { return rowID&pageBit != 0 }

// AddPage adds a page of a file to a session's part of the index.
func AddPage(ctx context.Context, tx db.Tx, rowID, session int64, text string) error {
	page := message{seq: SeqOf(rowID), conversation: ConversationOf(rowID), session: session, role: "user", content: text}
	return page.addBoth(ctx, tx)
}

// DeletePage deletes a page from the index.
func DeletePage(ctx context.Context, tx db.Tx, rowID int64) error { return deleteRow(ctx, tx, rowID) }

func deleteRow(ctx context.Context, tx db.Tx, rowID int64) error {
	for _, statement := range []string{
		db.Either(`DELETE FROM messages_fts WHERE rowid = ?`, `DELETE FROM message_words WHERE id = ?`),
		db.Either(`DELETE FROM messages_ranks WHERE rowid = ?`, `DELETE FROM message_ranks WHERE id = ?`),
	} {
		if _, err := tx.ExecContext(ctx, statement, rowID); err != nil {
			return err
		}
	}
	return nil
}

// The column place has tokens for the session and the kind of a message. They begin with a character that no word has, so that
// they match no text.
const (
	ownToken      = "\uE000"              // how these tokens begin
	ToolToken     = ownToken + "tool"     // a tool's result
	InternalToken = ownToken + "internal" // an internal message
)

// SessionToken returns the token of a session's messages. session is the id of the session's row.
func SessionToken(session int64) string { return ownToken + strconv.FormatInt(session, 10) }

// message is a message, or a page of a file, with the columns that the index needs.
type message struct {
	id, seq, conversation, session int64
	role                           string
	internal                       bool
	content, calls                 string
}

func (m message) rowID() int64 { return RowID(m.conversation, m.seq) }

// next returns the next messages after a cursor, with up to bytes of text; a longer message is returned alone.
func next(ctx context.Context, tx db.Tx, cursor string, bytes int) (batch []message, err error) {
	var after int64
	if err := tx.QueryRowContext(ctx, `SELECT CAST(value AS BIGINT) FROM cursors WHERE name = ?`, cursor).Scan(&after); err != nil {
		return nil, err
	}
	return read(ctx, tx, `m.id > ?`, after, batchRows, bytes)
}

// read returns up to n messages that meet a condition with the parameter which, in the order of their ids. It ends before their text
// exceeds bytes.
func read(ctx context.Context, q db.Querier, condition string, which any, n, bytes int) (batch []message, err error) {
	rows, err := q.QueryContext(ctx, selectMessages+`
		WHERE `+condition+` ORDER BY m.id LIMIT ?`+db.Either(``, ` FOR KEY SHARE OF m`), which, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		m, err := scan(rows)
		if err != nil {
			return nil, err
		}
		if size += len(m.content) + len(m.calls); len(batch) > 0 && size > bytes {
			break
		}
		batch = append(batch, m)
	}
	return batch, rows.Err()
}

const selectMessages = `
	SELECT m.id, m.seq, m.conversation_id, c.session_id, m.role, m.internal, m.content, coalesce(m.tool_calls, '')
	FROM messages m JOIN conversations c ON c.id = m.conversation_id `

func scan(rows *sql.Rows) (m message, err error) {
	err = rows.Scan(&m.id, &m.seq, &m.conversation, &m.session, &m.role, &m.internal, &m.content, &m.calls)
	return m, err
}

// add adds a message to the table of words.
func (m message) add(ctx context.Context, tx db.Tx) error {
	if m.content == "" && m.calls == "" {
		return nil
	}
	words, parts := fulltext.Tokenize(m.content)
	calls, callParts := fulltext.Tokenize(CallsText(m.calls))
	_, err := tx.ExecContext(ctx, insertWords,
		m.rowID(), m.place(), fulltext.Join(words), fulltext.Join(parts), fulltext.Join(append(calls, callParts...)))
	return err
}

// place returns the tokens for the session and the kind of a message.
func (m message) place() string {
	place := SessionToken(m.session)
	if m.role == "tool" {
		place += " " + ToolToken
	}
	if m.internal {
		place += " " + InternalToken
	}
	return place
}

// CallsText returns the tool calls of a message, which are given in their stored form, as text with a line for each call: "calls
// write_file: path notes.md content Buy milk". So searches find the words of arguments, and snippets show no JSON.
func CallsText(stored string) string {
	if stored == "" {
		return ""
	}
	var calls []struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	if err := json.Unmarshal([]byte(stored), &calls); err != nil {
		return stored
	}
	lines := make([]string, len(calls))
	for i, call := range calls {
		lines[i] = "calls " + call.Name + ": " + argumentsText(call.Arguments)
	}
	return strings.Join(lines, "\n")
}

// argumentsText returns the names and values in a JSON text, in their order. A text that is not JSON, as models sometimes write, is
// returned unchanged.
func argumentsText(arguments string) string {
	decoder := json.NewDecoder(strings.NewReader(arguments))
	decoder.UseNumber()
	var values []string
	for {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF):
			return strings.Join(values, " ")
		case err != nil:
			return arguments
		}
		if _, structure := token.(json.Delim); !structure && token != nil {
			values = append(values, fmt.Sprint(token))
		}
	}
}
