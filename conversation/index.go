package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"
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

// unindexed is what the index needs of a message.
type unindexed struct {
	id, seq, conversation, session int64
	role                           Role
	internal                       bool
	content                        string
}

// rowid is the message's in the index, see 00003_search.sql.
func (m unindexed) rowid() int64 { return m.conversation<<24 | m.seq }

// nextToIndex gives the next batch.
func nextToIndex(ctx context.Context, tx *sql.Tx) (batch []unindexed, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT m.id, m.seq, m.conversation_id, c.session_id, m.role, m.internal, m.content
		FROM messages m JOIN conversations c ON c.id = m.conversation_id
		WHERE m.id > (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts') ORDER BY m.id LIMIT ?`, indexBatch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		var m unindexed
		if err := rows.Scan(&m.id, &m.seq, &m.conversation, &m.session, &m.role, &m.internal, &m.content); err != nil {
			return nil, err
		}
		if size += len(m.content); len(batch) > 0 && size > indexBytes {
			break
		}
		batch = append(batch, m)
	}
	return batch, rows.Err()
}

// index adds one message: its words, and where it stands.
func (m unindexed) index(ctx context.Context, tx *sql.Tx) error {
	if m.content == "" {
		return nil
	}
	place := "s" + strconv.FormatInt(m.session, 10) + " c" + strconv.FormatInt(m.conversation, 10)
	if m.role == RoleTool {
		place += " tool"
	}
	if m.internal {
		place += " internal"
	}
	words, parts := cutWords(norm.NFC.String(m.content))
	_, err := tx.ExecContext(ctx, `INSERT INTO messages_fts (rowid, words, parts, place) VALUES (?, ?, ?, ?)`,
		m.rowid(), joinWords(words), joinWords(parts), place)
	return err
}

func joinWords(words []word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	return b.String()
}
