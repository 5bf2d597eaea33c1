// Package wordindex keeps the full-text index of the messages: an FTS5 table with the words of each, and one with what
// they are ranked by.
//
// The index follows the messages in the background, since adding many rows at once costs a fraction of adding each with
// its commit. How far it has come is a cursor, so that a crash leaves nothing out. Deleted words stay in the older
// segments of the index until these are merged, so all of them are after each deletion.
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

// ChoreName names the chore that brings the index up to date. What deletes messages needs it: a message that is not in
// the index yet can't be taken out of it.
const ChoreName = "the search index"

// UpdateChore returns the chore that brings the index up to date.
func UpdateChore() db.Chore { return db.Chore{Name: ChoreName, Step: Update, Skip: skip} }

// ScrubChore returns the chore that removes deleted words from the index. It belongs behind what deletes messages, so that
// it runs once for many deletions.
func ScrubChore() db.Chore {
	return db.Chore{Name: "deleted words in the search index", Step: scrub, Needs: ChoreName}
}

const (
	batchRows  = 200       // messages in one transaction, so that no write waits long
	batchBytes = 512 << 10 // of their text, likewise; a longer message is added alone
)

// Update adds the oldest messages that the index does not have, as many as fit into a transaction. done says that it has
// all.
func Update(ctx context.Context, tx *sql.Tx) (done bool, err error) {
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
	_, err = tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = 'messages_fts'`, last)
	return false, err
}

// sorted sorts messages as they stand in the index: FTS5 begins a new segment where the row falls.
func sorted(batch []message) []message {
	slices.SortFunc(batch, func(a, b message) int { return cmp.Compare(a.rowID(), b.rowID()) })
	return batch
}

// skip adds the next messages without those that can't be read. It returns db.ErrStuck when the index itself is damaged.
func skip(ctx context.Context, s *db.Skipper) error {
	return skipBehind(ctx, s, "messages_fts", message.add)
}

// skipBehind is skip for the table that a cursor belongs to, to which one adds a message.
func skipBehind(ctx context.Context, s *db.Skipper, cursor string, one func(message, context.Context, *sql.Tx) error) error {
	add := func(ctx context.Context, tx *sql.Tx, ids []int64) error {
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

// MessagesDeleted tells the index, and what makes vectors, that messages were deleted: the cursors go back to the newest
// that is left. SQLite gives the ids of rows deleted at the end to new ones, which would be passed over.
func MessagesDeleted(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `UPDATE embeddings SET done = min(done, (SELECT coalesce(max(id), 0) FROM messages))`); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE cursors SET value = min(CAST(value AS INTEGER), (SELECT coalesce(max(id), 0) FROM messages))
		WHERE name IN ('messages_fts', 'messages_ranks')`)
	return err
}

// MoveSession has the index say that the messages of a session belong to another one. Messages that the index does not
// have yet are added with the session that they belong to then.
func MoveSession(ctx context.Context, tx *sql.Tx, from, to int64) error {
	var ranked int64
	if err := tx.QueryRowContext(ctx, `SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_ranks'`).Scan(&ranked); err != nil {
		return err
	}
	for after := int64(0); ; {
		batch, err := indexedOf(ctx, tx, from, after)
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, m := range batch {
			if _, err := tx.ExecContext(ctx, `DELETE FROM messages_fts WHERE rowid = ?`, m.rowID()); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM messages_ranks WHERE rowid = ?`, m.rowID()); err != nil {
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

// indexedOf returns the next messages of a session that the index has.
func indexedOf(ctx context.Context, tx *sql.Tx, session, after int64) (batch []message, err error) {
	rows, err := tx.QueryContext(ctx, selectMessages+`
		WHERE c.session_id = ? AND m.id > ? AND m.id <= (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts')
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

// RowID returns the row of a message in the index. The messages of a conversation stand together, so that a search in it
// does not read others.
func RowID(conversation, seq int64) int64 { return conversation<<24 | seq }

// ConversationOf returns the conversation of a row of the index.
func ConversationOf(rowID int64) int64 { return rowID >> 24 }

// The column place has tokens that say where a message belongs. They begin with a character that no word has, so that no
// text is taken for them.
const (
	ownToken      = "\uE000"
	ToolToken     = ownToken + "tool"     // a tool's result
	InternalToken = ownToken + "internal" // an internal message
)

// SessionToken returns the token of a session's messages.
func SessionToken(session int64) string { return ownToken + strconv.FormatInt(session, 10) }

// message is what the index needs of a message.
type message struct {
	id, seq, conversation, session int64
	role                           string
	internal                       bool
	content, calls                 string
}

func (m message) rowID() int64 { return RowID(m.conversation, m.seq) }

// next returns the next messages behind a cursor, with up to so many bytes of text.
func next(ctx context.Context, tx *sql.Tx, cursor string, bytes int) (batch []message, err error) {
	var after int64
	if err := tx.QueryRowContext(ctx, `SELECT CAST(value AS INTEGER) FROM cursors WHERE name = ?`, cursor).Scan(&after); err != nil {
		return nil, err
	}
	return read(ctx, tx, `m.id > ?`, after, batchRows, bytes)
}

func read(ctx context.Context, q db.Querier, condition string, id int64, n, bytes int) (batch []message, err error) {
	rows, err := q.QueryContext(ctx, selectMessages+`
		WHERE `+condition+` ORDER BY m.id LIMIT ?`, id, n)
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

// add adds one message: its words, and where it belongs.
func (m message) add(ctx context.Context, tx *sql.Tx) error {
	if m.content == "" && m.calls == "" {
		return nil
	}
	words, parts := fulltext.Tokenize(m.content)
	calls, callParts := fulltext.Tokenize(CallsText(m.calls))
	_, err := tx.ExecContext(ctx, `INSERT INTO messages_fts (rowid, words, parts, calls, place) VALUES (?, ?, ?, ?, ?)`,
		m.rowID(), fulltext.Join(words), fulltext.Join(parts), fulltext.Join(append(calls, callParts...)), m.place())
	return err
}

// place returns the tokens that say where a message belongs.
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

// CallsText returns the tool calls of a message, given as they are stored, as text with a line for each: "calls
// write_file: path notes.md content Buy milk". So the name of a file is found, and read without the escapes of JSON.
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

// argumentsText returns the names and values of a JSON text in their order. Models write what they like: a text that is
// not JSON is returned as it is.
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
