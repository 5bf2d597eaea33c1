package conversation

import (
	"context"
	"database/sql"
	"time"
)

// The full-text index trails the messages by indexDelay: adding many rows at
// once costs a fraction of adding each with its commit. How far it has come is
// a cursor, so that a crash leaves nothing out.
const (
	indexDelay = time.Second
	indexBatch = 1000 // rows in one transaction, so that no write waits long
)

// indexMessages adds at most limit messages that the index does not have.
func indexMessages(ctx context.Context, tx *sql.Tx, limit int) error {
	var last sql.NullInt64
	err := tx.QueryRowContext(ctx, `
		WITH added AS (SELECT id FROM messages WHERE id > (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts') ORDER BY id LIMIT ?)
		SELECT max(id) FROM added`, limit).Scan(&last)
	if err != nil || !last.Valid {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO messages_fts (rowid, content)
		SELECT id, content FROM messages
		WHERE id > (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts') AND id <= ? AND content <> ''`, last.Int64)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = 'messages_fts'`, last.Int64)
	return err
}

// index catches up by one step; between steps others write.
func (w *writer) index() (more bool, err error) {
	err = w.transaction(write{do: func(ctx context.Context, tx *sql.Tx) error {
		var behind int
		err := tx.QueryRowContext(ctx, `
			SELECT count(*) FROM (SELECT 1 FROM messages
			WHERE id > (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts') LIMIT ?)`, indexBatch+1).Scan(&behind)
		if err != nil || behind == 0 {
			return err
		}
		more = behind > indexBatch
		return indexMessages(ctx, tx, indexBatch)
	}})
	return more, err
}

// finishIndex catches up at the end. What a failure leaves out is added at the
// next start.
func (w *writer) finishIndex() {
	for more, err := true, error(nil); more && err == nil; {
		more, err = w.index()
	}
}
