// Package runtotals keeps sums over runs: run_totals by hour, run_people by day, and run_durations by hour.
//
// Runs are added to the sums in the background, so that a commit does not wait for it. The ids of runs are not in the order
// of commits, but every run has a reply, and the ids of replies are. So a cursor stores the last reply whose run was added, and
// a crash neither leaves a run out nor counts it twice. On PostgreSQL the ids of replies are not in the order of commits either,
// since several processes write; there the table uncounted lists the runs that are missing in the sums.
package runtotals

import (
	"context"
	"fmt"

	"parley/conversation/internal/db"
)

// Chore returns the chore that brings the sums up to date.
func Chore() db.Chore { return db.Chore{Name: "the sums of runs", Step: Update, Skip: skip} }

// Batch is how many replies are processed in one transaction, at most.
const Batch = 500

// longest is the last class of run_durations in milliseconds, which includes all longer runs. The first class is 125 ms, and each
// is twice as long as the one before.
const longest = 1_024_000

// newRuns selects the runs whose first reply has an id from ?1 + 1 to ?2. A run with several replies, which have consecutive
// ids, counts once, for the channel of the first. Messages that were sent before the end of the run (interim) do not count as
// replies. On PostgreSQL, newRuns selects the runs with the ids ?4, which are listed in the table uncounted.
var newRuns = newRunsWith(``, ``)

// newRunsWith is newRuns with a further table of each engine.
func newRunsWith(sqlite, postgres string) string {
	return db.Either(`
	FROM outbox o JOIN runs r ON r.id = o.run_id `+sqlite+`
	WHERE o.id > ?1 AND o.id <= ?2 AND r.kind = 'agent' AND o.interim = 0
		AND (SELECT run_id FROM outbox p WHERE p.id = o.id - 1 AND p.interim = 0) IS NOT o.run_id `, `
	FROM uncounted o JOIN runs r ON r.id = o.run_id `+postgres+`
	WHERE o.run_id IN (SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(CAST(?4 AS text) AS json))) AND r.kind = 'agent' `)
}

// Took returns the SQL expression for the duration of a run in milliseconds, without the time in which it waited for answers of
// people. runs is the name of the table in the query.
func Took(runs string) string {
	return `CASE WHEN ` + runs + `.ended_at > ` + runs + `.started_at THEN ` + runs + `.ended_at - ` + runs + `.started_at - coalesce((
		SELECT sum(w.waited) FROM (SELECT max(answered_at) - min(asked_at) AS waited FROM approvals a WHERE a.run_id = ` + runs + `.id AND a.answered_at IS NOT NULL
			GROUP BY a.round, a.stop) AS w), 0) ELSE 0 END`
}

var (
	runSums = `count(*), count(*) FILTER (WHERE r.status = 'failed'), count(*) FILTER (WHERE r.status = 'stopped'), sum(r.messages),
		sum(r.prompt_tokens), sum(r.completion_tokens), sum(` + Took("r") + `), sum(r.cached_tokens), CASE WHEN count(*) = count(r.cost) THEN sum(r.cost) END`
	addSums = `DO UPDATE SET runs = t.runs + excluded.runs, failed = t.failed + excluded.failed, stopped = t.stopped + excluded.stopped,
		messages = t.messages + excluded.messages, prompt_tokens = t.prompt_tokens + excluded.prompt_tokens,
		completion_tokens = t.completion_tokens + excluded.completion_tokens, took = t.took + excluded.took, cached_tokens = t.cached_tokens + excluded.cached_tokens, cost = t.cost + excluded.cost`
	addTokens = `DO UPDATE SET prompt_tokens = t.prompt_tokens + excluded.prompt_tokens,
		cached_tokens = t.cached_tokens + excluded.cached_tokens, completion_tokens = t.completion_tokens + excluded.completion_tokens, cost = t.cost + excluded.cost`
)

var addTotals = `
	INSERT INTO run_totals AS t
	SELECT r.ended_at / 3600000, o.channel, r.model, ` + runSums + newRuns + `GROUP BY 1, 2, 3 ON CONFLICT (hour, channel, model) ` + addSums

var addPeople = `
	INSERT INTO run_people AS t
	SELECT r.ended_at / 86400000, o.channel, coalesce(` + db.Member("r.sender", "id") + `, ''), r.model, coalesce(max(` + db.Member("r.sender", "name") + `), ''), ` +
	runSums + newRuns + `AND r.people IS NULL GROUP BY 1, 2, 3, 4 ON CONFLICT (day, channel, person, model) ` + addSums + `, name = excluded.name`

// addShares adds the runs that answered several people: the run itself counts for the first of them, its tokens and its cost for each
// by their part.
var addShares = `
	INSERT INTO run_people AS t
	SELECT r.ended_at / 86400000, o.channel, p.value ->> 'id', r.model, coalesce(max(p.value ->> 'name'), ''), count(*) FILTER (WHERE p.key = 0),
		count(*) FILTER (WHERE p.key = 0 AND r.status = 'failed'), count(*) FILTER (WHERE p.key = 0 AND r.status = 'stopped'),
		sum(CASE WHEN p.key = 0 THEN r.messages ELSE 0 END), ` + sumPart("in") + `, ` + sumPart("out") + `, sum(CASE WHEN p.key = 0 THEN ` + Took("r") + ` ELSE 0 END),
		` + sumPart("cached") + `, CASE WHEN count(*) = count(p.value ->> 'cost') THEN ` + sumPart("cost") + ` END` +
	newRunsWith(`CROSS JOIN json_each(r.people) AS p`, `CROSS JOIN LATERAL (
		SELECT value, key - 1 AS key FROM json_array_elements(CAST(r.people AS json)) WITH ORDINALITY AS e(value, key)) AS p`) + `GROUP BY 1, 2, 3, 4 ON CONFLICT (day, channel, person, model) ` + addSums + `, name = excluded.name`

// sumPart returns the SQL expression for the sum of a number of the parts of people.
func sumPart(name string) string { return `sum(CAST(p.value ->> '` + name + `' AS BIGINT))` }

// The runs are materialized, so that the duration of each is computed once, and not for each class.
var addDurations = `
	WITH RECURSIVE class (within) AS (SELECT CAST(125 AS BIGINT) UNION ALL SELECT 2 * within FROM class WHERE within < ?3),
		ended (hour, took) AS MATERIALIZED (SELECT r.ended_at / 3600000, ` + Took("r") + newRuns + `)
	INSERT INTO run_durations AS t
	SELECT hour, coalesce((SELECT min(within) FROM class WHERE took <= within), ?3), count(*) FROM ended WHERE true
	GROUP BY 1, 2
	ON CONFLICT (hour, within) DO UPDATE SET runs = t.runs + excluded.runs`

// Update adds the oldest runs that are missing in the sums, as many as fit into a transaction. done reports that none is missing.
func Update(ctx context.Context, tx db.Tx) (done bool, err error) {
	ids, err := db.Column[int64](tx.QueryContext(ctx, missing, Batch))
	if err != nil || len(ids) == 0 {
		return err == nil, err
	}
	if err := add(ctx, tx, ids); err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, added, ids[len(ids)-1], db.IDs(ids))
	return err == nil && len(ids) < Batch, err
}

// missing selects the oldest replies, or on PostgreSQL the runs themselves, that may be missing in the
// sums. added records that they have been added.
var (
	missing = db.Either(`
		SELECT id FROM outbox WHERE id > (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'run_totals') ORDER BY id LIMIT ?`,
		`SELECT run_id FROM uncounted ORDER BY run_id LIMIT ? FOR UPDATE`)
	added = db.Either(`UPDATE cursors SET value = ?1 WHERE name = 'run_totals'`,
		`DELETE FROM uncounted WHERE run_id IN (SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(CAST(?2 AS text) AS json)))`)
)

// add adds the runs that belong to ids, which the query missing has returned.
func add(ctx context.Context, tx db.Tx, ids []int64) error {
	for _, statement := range []string{addTotals, addPeople, addShares, addDurations} {
		if _, err := tx.ExecContext(ctx, statement, ids[0]-1, ids[len(ids)-1], int64(longest), db.IDs(ids)); err != nil {
			return err
		}
	}
	return nil
}

// skip adds the next runs, and leaves out those that can't be read. It returns db.ErrStuck if the sums themselves are damaged.
func skip(ctx context.Context, s *db.Skipper) error {
	addEach := func(ctx context.Context, tx db.Tx, ids []int64) error {
		for _, id := range ids {
			if err := add(ctx, tx, []int64{id}); err != nil {
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

// Call is a model call that was made after the commit of a run.
type Call struct {
	At                 int64 // the time for which it is counted, in milliseconds
	Channel            string
	Person             string // the platform's id of the person, "" if it is not known
	Name               string // the name of the person
	Model              string
	Prompt, Completion int    // tokens
	Cached             int    // the tokens of Prompt that the model's server took from its cache
	Cost               *int64 // billionths of the currency of the prices; nil if it is not known
}

// AddCall adds the tokens of a call to the sums. It does not change the numbers of runs.
func AddCall(ctx context.Context, tx db.Tx, c Call) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO run_totals AS t (hour, channel, model, runs, failed, stopped, messages, prompt_tokens, cached_tokens, completion_tokens, took, cost)
		VALUES (?, ?, ?, 0, 0, 0, 0, ?, ?, ?, 0, ?)
		ON CONFLICT (hour, channel, model) `+addTokens,
		c.At/3_600_000, c.Channel, c.Model, c.Prompt, c.Cached, c.Completion, c.Cost)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO run_people AS t (day, channel, person, model, name, runs, failed, stopped, messages, prompt_tokens, cached_tokens, completion_tokens, took, cost)
		VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, ?, ?, ?, 0, ?)
		ON CONFLICT (day, channel, person, model) `+addTokens,
		c.At/86_400_000, c.Channel, c.Person, c.Model, c.Name, c.Prompt, c.Cached, c.Completion, c.Cost)
	return err
}
