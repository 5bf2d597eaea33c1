package conversation

import (
	"context"
	"database/sql"
	"fmt"

	"parley/conversation/internal/db"
)

// The sums of run_totals, run_people and run_durations trail the runs, so that no commit
// pays for them. Runs have no order in which they were committed, but every run
// leaves a reply, and replies are numbered as they come: a cursor over these
// says how far the sums have come, so that a crash leaves nothing out and counts
// nothing twice.

// totalsBatch is how many replies are looked at in one transaction.
const totalsBatch = 500

// longest is the last class of run_durations, milliseconds: what took longer is
// in it as well. The first one is 125.
const longest = 1_024_000

// newRuns are the runs whose first reply stands in a stretch of the outbox: of a
// run with several, which follow each other, it counts once, and to the channel of
// the first.
const newRuns = `
	FROM outbox o JOIN runs r ON r.id = o.run_id
	WHERE o.id > ?1 AND o.id <= ?2 AND r.kind = 'agent' AND (SELECT run_id FROM outbox p WHERE p.id = o.id - 1) IS NOT o.run_id `

const (
	runSums = `count(*), sum(r.status = 'failed'), sum(r.status = 'stopped'), sum(r.messages),
		sum(r.prompt_tokens), sum(r.completion_tokens), sum(max(r.ended_at - r.started_at, 0))`
	addSums = `ON CONFLICT DO UPDATE SET runs = runs + excluded.runs, failed = failed + excluded.failed, stopped = stopped + excluded.stopped,
		messages = messages + excluded.messages, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
		completion_tokens = completion_tokens + excluded.completion_tokens, took = took + excluded.took`
)

const addTotals = `
	INSERT INTO run_totals
	SELECT r.ended_at / 3600000, o.channel, r.model, ` + runSums + newRuns + `GROUP BY 1, 2, 3 ` + addSums

const addPeople = `
	INSERT INTO run_people
	SELECT r.ended_at / 86400000, o.channel, coalesce(r.sender ->> 'id', ''), r.model, coalesce(max(r.sender ->> 'name'), ''), ` + runSums + newRuns + `
	GROUP BY 1, 2, 3, 4 ` + addSums + `, name = excluded.name`

const addDurations = `
	WITH RECURSIVE class (within) AS (SELECT 125 UNION ALL SELECT 2 * within FROM class WHERE within < ?3)
	INSERT INTO run_durations
	SELECT r.ended_at / 3600000, coalesce((SELECT min(within) FROM class WHERE r.ended_at - r.started_at <= within), ?3), count(*)` + newRuns + `
	GROUP BY 1, 2
	ON CONFLICT DO UPDATE SET runs = runs + excluded.runs`

// sumRuns adds the oldest runs that the sums do not have. done says that they
// have all.
func sumRuns(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	var after, last int64
	err = tx.QueryRowContext(ctx, `
		SELECT CAST(value AS INTEGER), (
			SELECT coalesce(max(id), 0) FROM (SELECT id FROM outbox WHERE id > CAST(value AS INTEGER) ORDER BY id LIMIT ?))
		FROM cursors WHERE name = 'run_totals'`, totalsBatch).Scan(&after, &last)
	if err != nil || last == 0 {
		return err == nil, err
	}
	if err := addRuns(ctx, tx, after, last); err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = 'run_totals'`, last)
	return false, err
}

// addRuns adds the runs of a stretch of replies.
func addRuns(ctx context.Context, tx *sql.Tx, after, last int64) error {
	for _, add := range []string{addTotals, addPeople, addDurations} {
		if _, err := tx.ExecContext(ctx, add, after, last, longest); err != nil {
			return err
		}
	}
	return nil
}

// skipRuns adds the next runs without those that can't be read. db.ErrStuck says that
// the sums themselves are damaged.
func skipRuns(ctx context.Context, s *db.Skipper) error {
	add := func(ctx context.Context, tx *sql.Tx, ids []int64) error {
		for _, id := range ids {
			if err := addRuns(ctx, tx, id-1, id); err != nil {
				return err
			}
		}
		return nil
	}
	return s.Rows(ctx, "outbox", "run_totals", totalsBatch, add, func(id int64, err error) error {
		var sums string
		unread := s.QueryRowContext(ctx, `SELECT json_array(r.ended_at, o.channel, r.model, r.sender, `+runSums+`)`+newRuns, id-1, id).Scan(&sums)
		if unread == nil {
			return fmt.Errorf("%w: %w", db.ErrStuck, err)
		}
		s.NoteDamage("runs, whose sums lack them", err)
		return nil
	})
}
