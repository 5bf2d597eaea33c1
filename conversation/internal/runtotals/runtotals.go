// Package runtotals keeps the sums of runs: run_totals by hour, run_people by day, and run_durations.
//
// The sums follow the runs in the background, so that no commit pays for them. Runs have no order in which they were
// committed, but every run leaves a reply, and replies are numbered as they come: a cursor over the replies says how far
// the sums have come, so that a crash leaves nothing out and counts nothing twice.
package runtotals

import (
	"context"
	"database/sql"
	"fmt"

	"parley/conversation/internal/db"
)

// Chore returns what keeps the sums up to date.
func Chore() db.Chore { return db.Chore{Name: "the sums of runs", Step: Update, Skip: skip} }

// Batch is how many replies are examined in one transaction.
const Batch = 500

// longest is the last class of run_durations, in milliseconds; it has all longer runs as well. The first class is 125.
const longest = 1_024_000

// newRuns are the runs whose first reply is among the replies after ?1, up to ?2. A run with several replies, which
// follow each other, counts once, for the channel of the first.
const newRuns = `
	FROM outbox o JOIN runs r ON r.id = o.run_id
	WHERE o.id > ?1 AND o.id <= ?2 AND r.kind = 'agent' AND (SELECT run_id FROM outbox p WHERE p.id = o.id - 1) IS NOT o.run_id `

const (
	runSums = `count(*), sum(r.status = 'failed'), sum(r.status = 'stopped'), sum(r.messages),
		sum(r.prompt_tokens), sum(r.completion_tokens), sum(max(r.ended_at - r.started_at, 0)), sum(r.cached_tokens)`
	addSums = `ON CONFLICT DO UPDATE SET runs = runs + excluded.runs, failed = failed + excluded.failed, stopped = stopped + excluded.stopped,
		messages = messages + excluded.messages, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
		completion_tokens = completion_tokens + excluded.completion_tokens, took = took + excluded.took, cached_tokens = cached_tokens + excluded.cached_tokens`
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

// Update adds the oldest runs that the sums do not have, as many as fit into a transaction. done says that they have all.
func Update(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	var after, last int64
	err = tx.QueryRowContext(ctx, `
		SELECT CAST(value AS INTEGER), (
			SELECT coalesce(max(id), 0) FROM (SELECT id FROM outbox WHERE id > CAST(value AS INTEGER) ORDER BY id LIMIT ?))
		FROM cursors WHERE name = 'run_totals'`, Batch).Scan(&after, &last)
	if err != nil || last == 0 {
		return err == nil, err
	}
	if err := add(ctx, tx, after, last); err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = 'run_totals'`, last)
	return false, err
}

// add adds the runs of the replies after one, up to another.
func add(ctx context.Context, tx *sql.Tx, after, last int64) error {
	for _, statement := range []string{addTotals, addPeople, addDurations} {
		if _, err := tx.ExecContext(ctx, statement, after, last, longest); err != nil {
			return err
		}
	}
	return nil
}

// skip adds the next runs without those that can't be read. It returns db.ErrStuck when the sums themselves are damaged.
func skip(ctx context.Context, s *db.Skipper) error {
	addEach := func(ctx context.Context, tx *sql.Tx, ids []int64) error {
		for _, id := range ids {
			if err := add(ctx, tx, id-1, id); err != nil {
				return err
			}
		}
		return nil
	}
	return s.Rows(ctx, "outbox", "run_totals", Batch, addEach, func(id int64, err error) error {
		var sums string
		unread := s.QueryRowContext(ctx, `SELECT json_array(r.ended_at, o.channel, r.model, r.sender, `+runSums+`)`+newRuns, id-1, id).Scan(&sums)
		if unread == nil {
			return fmt.Errorf("%w: %w", db.ErrStuck, err)
		}
		s.NoteDamage("runs, whose sums lack them", err)
		return nil
	})
}

// Call is a model call beside the runs.
type Call struct {
	At                 int64 // when it is counted, in milliseconds
	Channel            string
	Person             string // the platform's id, "" when nobody said
	Name               string // of the person
	Model              string
	Prompt, Completion int // tokens
	Cached             int // of Prompt: from the cache of the model's server
}

// AddCall adds the tokens of a call to the sums. It adds no run.
func AddCall(ctx context.Context, tx *sql.Tx, c Call) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO run_totals (hour, channel, model, runs, failed, stopped, messages, prompt_tokens, cached_tokens, completion_tokens, took)
		VALUES (?, ?, ?, 0, 0, 0, 0, ?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET prompt_tokens = prompt_tokens + excluded.prompt_tokens,
			cached_tokens = cached_tokens + excluded.cached_tokens, completion_tokens = completion_tokens + excluded.completion_tokens`,
		c.At/3_600_000, c.Channel, c.Model, c.Prompt, c.Cached, c.Completion)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO run_people (day, channel, person, model, name, runs, failed, stopped, messages, prompt_tokens, cached_tokens, completion_tokens, took)
		VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, ?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET prompt_tokens = prompt_tokens + excluded.prompt_tokens,
			cached_tokens = cached_tokens + excluded.cached_tokens, completion_tokens = completion_tokens + excluded.completion_tokens`,
		c.At/86_400_000, c.Channel, c.Person, c.Model, c.Name, c.Prompt, c.Cached, c.Completion)
	return err
}
