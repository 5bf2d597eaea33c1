package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
)

// The full-text index trails the messages: adding many rows at once costs a
// fraction of adding each with its commit. How far it has come is a cursor, so
// that a crash leaves nothing out.

const (
	indexBatch = 200       // rows in one transaction, so that no write waits long
	indexBytes = 512 << 10 // of text, likewise; a longer message goes alone
)

// index adds the oldest messages that the index does not have. done says that
// it has all.
func index(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	batch, err := nextToIndex(ctx, tx)
	if err != nil || len(batch) == 0 {
		return err == nil, err
	}
	last := batch[len(batch)-1].id
	slices.SortFunc(batch, func(a, b unindexed) int { return cmp.Compare(a.rowid(), b.rowid()) }) // FTS5 begins a new segment where they fall
	for _, m := range batch {
		if err := m.index(ctx, tx); err != nil {
			return false, err
		}
		if m.seq%countEvery == 0 {
			if err := countExchanges(ctx, tx, m.conversation, m.seq); err != nil {
				return false, err
			}
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = 'messages_fts'`, last)
	return false, err
}

// skipMessages adds the next messages without those that can't be read. db.ErrStuck
// says that the index itself is damaged.
func skipMessages(ctx context.Context, s *db.Skipper) error {
	add := func(ctx context.Context, tx *sql.Tx, ids []int64) error {
		for _, id := range ids {
			batch, err := readUnindexed(ctx, tx, `m.id = ?`, id, 1)
			if err != nil {
				return err
			}
			for _, m := range batch {
				if err := m.index(ctx, tx); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return s.Rows(ctx, "messages", "messages_fts", indexBatch, add, func(id int64, err error) error {
		if _, unread := readUnindexed(ctx, s, `m.id = ?`, id, 1); unread == nil {
			return fmt.Errorf("%w: %w", db.ErrStuck, err)
		}
		s.NoteDamage("messages, which are not found", err)
		return nil
	})
}

// unindexed is what the index needs of a message.
type unindexed struct {
	id, seq, conversation, session int64
	role                           Role
	internal                       bool
	content, calls                 string
}

// rowidOf is a message's in the index: what is said in one conversation lies
// together, and a search in it does not read what is elsewhere.
func rowidOf(conversation, seq int64) int64 { return conversation<<24 | seq }

func (m unindexed) rowid() int64 { return rowidOf(m.conversation, m.seq) }

// nextToIndex gives the next batch.
func nextToIndex(ctx context.Context, tx *sql.Tx) (batch []unindexed, err error) {
	var after int64
	if err := tx.QueryRowContext(ctx, `SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts'`).Scan(&after); err != nil {
		return nil, err
	}
	return readUnindexed(ctx, tx, `m.id > ?`, after, indexBatch)
}

func readUnindexed(ctx context.Context, q db.Querier, condition string, id int64, n int) (batch []unindexed, err error) {
	rows, err := q.QueryContext(ctx, selectUnindexed+`
		WHERE `+condition+` ORDER BY m.id LIMIT ?`, id, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		m, err := scanUnindexed(rows)
		if err != nil {
			return nil, err
		}
		if size += len(m.content) + len(m.calls); len(batch) > 0 && size > indexBytes {
			break
		}
		batch = append(batch, m)
	}
	return batch, rows.Err()
}

const selectUnindexed = `
	SELECT m.id, m.seq, m.conversation_id, c.session_id, m.role, m.internal, m.content, coalesce(m.tool_calls, '')
	FROM messages m JOIN conversations c ON c.id = m.conversation_id `

func scanUnindexed(rows *sql.Rows) (m unindexed, err error) {
	err = rows.Scan(&m.id, &m.seq, &m.conversation, &m.session, &m.role, &m.internal, &m.content, &m.calls)
	return m, err
}

// index adds one message: its words, and where it stands.
func (m unindexed) index(ctx context.Context, tx *sql.Tx) error {
	if m.content == "" && m.calls == "" {
		return nil
	}
	place := placeToken(m.session)
	if m.role == RoleTool {
		place += " " + toolToken
	}
	if m.internal {
		place += " " + internalToken
	}
	words, parts := fulltext.Tokenize(m.content)
	calls, callParts := fulltext.Tokenize(callsText(m.calls))
	_, err := tx.ExecContext(ctx, `INSERT INTO messages_fts (rowid, words, parts, calls, place) VALUES (?, ?, ?, ?, ?)`,
		m.rowid(), fulltext.Join(words), fulltext.Join(parts), fulltext.Join(append(calls, callParts...)), place)
	return err
}

// Where a message stands is told by tokens that begin with a character which no
// word has, so that no text is taken for them.
const (
	ownToken      = "\uE000"
	toolToken     = ownToken + "tool"
	internalToken = ownToken + "internal"
)

func placeToken(session int64) string { return ownToken + strconv.FormatInt(session, 10) }
