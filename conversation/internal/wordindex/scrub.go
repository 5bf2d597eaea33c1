package wordindex

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"parley/conversation/internal/db"
)

// Scrubbing removes deleted words by merging all segments of the index, a part at a time: https://www.sqlite.org/fts5.html, sections
// 6.8 ('merge') and 6.9 ('optimize'). For each table that is being scrubbed, there is a cursor with the table's name and scrubSuffix.
const (
	scrubSuffix = "_scrub"
	scrubBegin  = "begin" // the cursor of a table whose segments are not marked for merging yet
	scrubGoOn   = "go on" // the cursor of a table whose segments are being merged
	mergePages  = 16      // how many pages of a table are merged in one step
)

// mergeSome returns the SQL statement that merges up to this number of pages of a table.
func mergeSome(table string, pages int) string {
	return `INSERT INTO ` + table + ` (` + table + `, rank) VALUES ('merge', ` + strconv.Itoa(pages) + `)`
}

// Merge merges some pages of the index where four segments have a similar size. Each step of a chore that adds rows or deletes some
// calls it: migration 70 keeps FTS5 from merging in commits, which took seconds for the deletion of a few hundred messages.
func Merge(ctx context.Context, tx db.Tx) error {
	for _, table := range tables {
		if _, err := tx.ExecContext(ctx, db.Either(mergeSome(table, mergePages), `SELECT 1`)); err != nil {
			return err
		}
	}
	return nil
}

// ScheduleScrub makes the ScrubChore remove the words of deleted messages from the index. It does nothing on PostgreSQL, where deleted
// rows do not stay in the index; the server frees their bytes when it vacuums the tables.
func ScheduleScrub(ctx context.Context, tx db.Tx) error {
	for _, table := range tables {
		if err := setScrub(ctx, tx, table, scrubBegin); err != nil {
			return err
		}
	}
	return nil
}

// tables are the FTS5 tables of the index.
var tables = []string{"messages_fts", "messages_ranks"}

func setScrub(ctx context.Context, tx db.Tx, table, state string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO cursors (name, value, updated_at) SELECT CAST(? AS TEXT), CAST(? AS TEXT), 0 FROM cursors WHERE name = ?
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`, table+scrubSuffix, state, table)
	return err
}

// scrub merges a part of the index if it is scheduled. done reports that nothing is left to merge.
func scrub(ctx context.Context, tx db.Tx) (done bool, err error) {
	for _, table := range tables {
		if done, err = scrubTable(ctx, tx, table); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

func scrubTable(ctx context.Context, tx db.Tx, table string) (done bool, err error) {
	var state string
	err = tx.QueryRowContext(ctx, `SELECT value FROM cursors WHERE name = ?`, table+scrubSuffix).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	pages := mergePages
	if state == scrubBegin {
		pages = -mergePages // a negative number marks all segments for merging
	}
	before, err := db.Changes(ctx, tx)
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, mergeSome(table, pages)); err != nil {
		return false, err
	}
	after, err := db.Changes(ctx, tx)
	if err != nil {
		return false, err
	}
	if after-before < 2 { // the statement itself counts as one
		_, err = tx.ExecContext(ctx, `DELETE FROM cursors WHERE name = ?`, table+scrubSuffix)
		return true, err
	}
	return false, setScrub(ctx, tx, table, scrubGoOn)
}
