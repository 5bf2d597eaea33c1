package retention

import (
	"context"

	"parley/conversation/internal/db"
)

// prunable is a table whose rows are deleted some time after they are done.
type prunable struct {
	table string
	done  string // SQL expression: whether a row is done
	since string // SQL expression: when it was done, in milliseconds
}

// An inbound that was withdrawn has no run, so sent_at stands for the time when it was done.
// Only platforms that say when a message was sent can withdraw one.
var (
	inboxRows = prunable{
		table: "inbox",
		done:  "run_id IS NOT NULL",
		since: "coalesce((SELECT ended_at FROM runs WHERE runs.id = run_id), sent_at)",
	}
	appendRows = prunable{
		table: "appends",
		done:  "true",
		since: "created_at",
	}
	talkRows = prunable{
		table: "group_talk",
		done:  "true",
		since: "created_at",
	}
	outboxRows = prunable{
		table: "outbox",
		done:  "state <> 'due'",
		since: "created_at",
	}
)

// pruneBatch is how many rows are read, and deleted, in one transaction at most.
const pruneBatch = 200

// rows deletes or counts the rows of a table that were done before doneBefore, and adds their
// number to count. Ids grow with time. So it goes from the oldest row to newer ones, and needs
// no index by time, which would cost every message a page on disk. It ends at a stretch in which
// rows are done and none of them is old, since later rows are not old either.
func (c *cleaner) rows(ctx context.Context, p prunable, count *int64) error {
	for after := int64(0); ; {
		stretch, err := c.prune(ctx, p, after)
		if db.IsDamaged(err) {
			stretch, err = c.pruneReadable(ctx, p, after)
		}
		if err != nil {
			return err
		}
		*count += stretch.old
		if after = stretch.last; stretch.ends() {
			return nil
		}
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

// stretch describes consecutive rows of a table.
type stretch struct {
	last int64 // the id of the last row
	rows int64 // the number of rows
	done int64 // how many of them are done
	old  int64 // how many of them were done before doneBefore
}

// ends reports whether no old row follows the stretch.
func (s stretch) ends() bool { return s.rows < pruneBatch || s.done > 0 && s.old == 0 }

// pruneReadable checks the next rows one by one, and skips those on
// damaged pages.
func (c *cleaner) pruneReadable(ctx context.Context, p prunable, after int64) (found stretch, err error) {
	ids, err := db.ReadableIDs(ctx, c.db, p.table, after, pruneBatch)
	if err != nil || len(ids) == 0 {
		return stretch{}, err
	}
	found = stretch{last: ids[len(ids)-1], rows: int64(len(ids))}
	if found.last > after+int64(len(ids)) { // the ids have gaps, so there may be more rows
		found.rows = pruneBatch
	}
	for _, id := range ids {
		one, err := c.pruneSome(ctx, p, id-1, 1)
		if err != nil && !db.IsDamaged(err) {
			return found, err
		}
		if err == nil && one.last == id {
			found.done += one.done
			found.old += one.old
		}
	}
	return found, nil
}

// prune deletes or counts the old rows among the next pruneBatch rows after an id.
func (c *cleaner) prune(ctx context.Context, p prunable, after int64) (found stretch, err error) {
	return c.pruneSome(ctx, p, after, pruneBatch)
}

// pruneSome is prune for the next n rows.
func (c *cleaner) pruneSome(ctx context.Context, p prunable, after int64, n int) (found stretch, err error) {
	if !c.deletes {
		return p.next(ctx, c.db, after, c.doneBefore, n)
	}
	err = c.db.Write(ctx, func(ctx context.Context, tx db.Tx) (err error) {
		if found, err = p.next(ctx, tx, after, c.doneBefore, n); err != nil || found.old == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			DELETE FROM `+p.table+` WHERE id > ? AND id <= ? AND `+p.done+` AND `+p.since+` < ?`, after, found.last, c.doneBefore)
		return err
	})
	return found, err
}

// next describes the next n rows after an id. It never includes the newest row of the table:
// the next id is derived from it, and an id must not be used twice.
func (p prunable) next(ctx context.Context, q db.Querier, after, before int64, n int) (found stretch, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT coalesce(max(id), ?1), count(*), count(*) FILTER (WHERE done), count(*) FILTER (WHERE done AND since < ?2)
		FROM (SELECT id, `+p.done+` AS done, `+p.since+` AS since FROM `+p.table+`
			WHERE id > ?1 AND id < (SELECT max(id) FROM `+p.table+`) ORDER BY id LIMIT ?3) AS next`,
		after, before, n).Scan(&found.last, &found.rows, &found.done, &found.old)
	return found, err
}
