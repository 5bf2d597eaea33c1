package conversation

import (
	"context"
	"database/sql"
)

// The full-text index trails the messages: adding many rows at once costs a
// fraction of adding each with its commit. How far it has come is a cursor, so
// that a crash leaves nothing out.

const (
	indexBatch = 500     // rows in one transaction, so that no write waits long
	indexBytes = 1 << 20 // of text, likewise; a longer message goes alone
)

// index adds the oldest messages that the index does not have. done says that
// it has all.
func index(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	last, n, err := nextToIndex(ctx, tx)
	if err != nil || n == 0 {
		return err == nil, err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO messages_fts (rowid, content)
		SELECT id, content FROM messages
		WHERE id > (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts') AND id <= ? AND content <> ''`, last)
	if err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = 'messages_fts'`, last)
	return false, err
}

// nextToIndex is the last message of the next batch, and how many it has.
func nextToIndex(ctx context.Context, tx *sql.Tx) (last int64, n int, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT id, length(content) FROM messages
		WHERE id > (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts') ORDER BY id LIMIT ?`, indexBatch)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for size := 0; rows.Next(); n++ {
		var id int64
		var length int
		if err := rows.Scan(&id, &length); err != nil {
			return 0, 0, err
		}
		if size += length; n > 0 && size > indexBytes {
			break
		}
		last = id
	}
	return last, n, rows.Err()
}
