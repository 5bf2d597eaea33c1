package wordindex

import (
	"bytes"
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
	mergePages  = 16      // how many pages of the index a step merges
)

// merging returns a step of a chore that merges segments of a table of the index, and then does add when nothing is left to merge.
// Migration 70 keeps FTS5 from merging in commits, which took seconds for the deletion of a few hundred messages. The segments of a
// table that is being scrubbed are left to scrub, so that new messages need not wait for it.
func merging(table string, add func(context.Context, db.Tx) (done bool, err error)) func(context.Context, db.Tx) (done bool, err error) {
	var settled []byte // the list of segments for which there was nothing to merge; at first, the one that an earlier process has left
	return func(ctx context.Context, tx db.Tx) (done bool, err error) {
		var segments []byte
		if err := tx.QueryRowContext(ctx, `SELECT block FROM `+table+`_data WHERE id = 10`).Scan(&segments); err != nil {
			return false, err
		}
		if settled == nil {
			settled = segments
		}
		if bytes.Equal(segments, settled) {
			return add(ctx, tx)
		}
		state, err := scrubState(ctx, tx, table)
		if err != nil {
			return false, err
		}
		if state != scrubGoOn {
			if merged, err := merge(ctx, tx, table, mergePages); err != nil || merged {
				return false, err
			}
		}
		settled = segments
		return add(ctx, tx)
	}
}

// merge merges up to this number of pages of a table, and reports whether there was something to merge: a merge that has begun, or
// four segments of similar size. A negative number marks all segments for merging first.
func merge(ctx context.Context, tx db.Tx, table string, pages int) (merged bool, err error) {
	before, err := db.Changes(ctx, tx)
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO `+table+` (`+table+`, rank) VALUES ('merge', `+strconv.Itoa(pages)+`)`); err != nil {
		return false, err
	}
	after, err := db.Changes(ctx, tx)
	return after-before >= 2, err // the statement itself counts as one
}

// scrubState returns the cursor of a table that is being scrubbed, or "".
func scrubState(ctx context.Context, tx db.Tx, table string) (state string, err error) {
	err = tx.QueryRowContext(ctx, `SELECT value FROM cursors WHERE name = ?`, table+scrubSuffix).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return state, err
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
	state, err := scrubState(ctx, tx, table)
	if err != nil || state == "" {
		return err == nil, err
	}
	pages := mergePages
	if state == scrubBegin {
		pages = -mergePages
	}
	merged, err := merge(ctx, tx, table, pages)
	if err != nil {
		return false, err
	}
	if !merged {
		_, err = tx.ExecContext(ctx, `DELETE FROM cursors WHERE name = ?`, table+scrubSuffix)
		return true, err
	}
	if state == scrubGoOn {
		return false, nil
	}
	return false, setScrub(ctx, tx, table, scrubGoOn)
}
