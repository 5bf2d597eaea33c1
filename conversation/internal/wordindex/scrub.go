package wordindex

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"parley/conversation/internal/db"
)

// Scrubbing merges all segments of the index, a part at a time: https://www.sqlite.org/fts5.html, sections 6.8 ('merge')
// and 6.9 ('optimize'). A cursor says whether it is under way.
const (
	scrubCursor = "messages_fts_scrub"
	scrubBegin  = "begin"
	scrubGoOn   = "go on"
	scrubPages  = 64 // of the index, merged in one transaction
)

// ScheduleScrub has the words of deleted messages removed from the index in the background.
func ScheduleScrub(ctx context.Context, tx *sql.Tx) error { return setScrub(ctx, tx, scrubBegin) }

func setScrub(ctx context.Context, tx *sql.Tx, state string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO cursors (name, value, updated_at) VALUES (?, ?, 0)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`, scrubCursor, state)
	return err
}

// scrub merges a part of the index if that is due. done says that nothing is left to merge.
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
		pages = -scrubPages // which marks all segments for merging
	}
	before, err := db.Changes(ctx, tx)
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO messages_fts (messages_fts, rank) VALUES ('merge', `+strconv.Itoa(pages)+`)`); err != nil {
		return false, err
	}
	after, err := db.Changes(ctx, tx)
	if err != nil {
		return false, err
	}
	if after-before < 2 { // the statement itself counts as one
		_, err = tx.ExecContext(ctx, `DELETE FROM cursors WHERE name = ?`, scrubCursor)
		return true, err
	}
	return false, setScrub(ctx, tx, scrubGoOn)
}
