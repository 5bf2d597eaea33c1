package conversation

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
)

// A conversation is deleted in two steps: the commit hides it, whatever its
// length, and its rows are swept away in the background, in steps so small that
// no write waits long. A crash in between is caught up with at the next start.

// deleteConversation hides a conversation for good. Settled inbound and sent
// replies hold no copy of its words; a reply that is still due is sent first.
func deleteConversation(ctx context.Context, tx *sql.Tx, id int64) error {
	for _, statement := range []string{
		`UPDATE conversations SET deleted = 1, active = 0, title = '' WHERE id = ?`,
		`UPDATE outbox SET text = '', actions = NULL WHERE state = 'failed'
			AND session_id = (SELECT session_id FROM conversations WHERE id = ?1)
			AND EXISTS (SELECT 1 FROM runs WHERE runs.id = outbox.run_id AND conversation_id = ?1)`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
	}
	return nil
}

// sweepBatch is how many rows of a deleted conversation go in one transaction.
const sweepBatch = 200

// sweep deletes some rows of a deleted conversation, at last itself. done says
// that there is none left. Every message must be in the index already: what is
// not can't be taken out of it.
func sweep(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	var id int64
	err = tx.QueryRowContext(ctx, `SELECT id FROM conversations WHERE deleted = 1 LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, statement := range []string{
		`DELETE FROM messages WHERE id IN (SELECT id FROM messages WHERE conversation_id = ? LIMIT ?)`,
		`UPDATE runs SET conversation_id = NULL, error = '' WHERE id IN (SELECT id FROM runs WHERE conversation_id = ? LIMIT ?)`,
	} {
		result, err := tx.ExecContext(ctx, statement, id, sweepBatch)
		if err != nil {
			return false, err
		}
		if n, err := result.RowsAffected(); err != nil || n == sweepBatch {
			return false, err
		}
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM conversations WHERE id = ?`, id); err != nil {
		return false, err
	}
	return false, setCursor(ctx, tx, Cursor{Name: scrubCursor, Value: scrubBegin}, 0)
}

// Deleted words stay in the index's older segments until these are merged, so
// after a sweep all of them are, step by step: https://www.sqlite.org/fts5.html,
// sections 6.8 ('merge') and 6.9 ('optimize').
const (
	scrubCursor = "messages_fts_scrub"
	scrubBegin  = "begin"
	scrubGoOn   = "go on"
	scrubPages  = 64 // of the index, merged in one transaction
)

// scrub merges a part of the index when that is due. done says that nothing is
// left to merge.
func scrub(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	var state string
	err = tx.QueryRowContext(ctx, `SELECT value FROM cursors WHERE name = ?`, scrubCursor).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	pages := scrubPages
	if state == scrubBegin {
		pages = -scrubPages // which puts all segments down for merging
	}
	before, err := totalChanges(ctx, tx)
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO messages_fts (messages_fts, rank) VALUES ('merge', `+strconv.Itoa(pages)+`)`); err != nil {
		return false, err
	}
	after, err := totalChanges(ctx, tx)
	if err != nil {
		return false, err
	}
	if after-before < 2 { // the statement itself counts as one
		_, err = tx.ExecContext(ctx, `DELETE FROM cursors WHERE name = ?`, scrubCursor)
		return true, err
	}
	return false, setCursor(ctx, tx, Cursor{Name: scrubCursor, Value: scrubGoOn}, 0)
}

func totalChanges(ctx context.Context, tx *sql.Tx) (n int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT total_changes()`).Scan(&n)
	return n, err
}
