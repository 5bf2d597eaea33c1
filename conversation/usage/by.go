package usage

import (
	"context"
	"strconv"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
)

// Group says by what By groups its sums.
type Group string

// The groups of By.
const (
	ByDay     Group = "day"     // Part.Name is a day in UTC, "2026-05-01"
	ByPerson  Group = "person"  // Part.Name is CHANNEL:ID; without an ID if the person is not known
	BySession Group = "session" // Part.Name is the key of the session
	ByAgent   Group = "agent"   // Part.Name is the name of the agent, "" for that of [agent]
	ByModel   Group = "model"   // Part.Name is the name of the model
)

// Part is what the calls of one model have used in one group.
type Part struct {
	Name   string // identifies the group, see Group
	Person string // with ByPerson, the name of the person, as last seen; else ""
	Spent
}

// By returns what model calls have used, by group and model. Sums by day, person and model begin with the day in UTC in
// which since lies. Sums by session and agent begin at since, and leave out the calls of deleted conversations.
func (u *Usage) By(ctx context.Context, by Group, since time.Time) (list []Part, err error) {
	query, from := groupQuery(by), any(hourOf(since)/24)
	switch by {
	case BySession, ByAgent:
		from = db.Millis(since)
	default:
		u.db.CatchUp(ctx, runtotals.Update)
	}
	rows, err := u.db.QueryContext(ctx, query, from)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var p Part
		if err := rows.Scan(append([]any{&p.Name, &p.Person}, p.fields()...)...); err != nil {
			return nil, db.Explain(err)
		}
		if by == ByDay {
			day, err := strconv.ParseInt(p.Name, 10, 64)
			if err != nil {
				return nil, err
			}
			p.Name = atHour(day * 24).UTC().Format(time.DateOnly)
		}
		list = append(list, p)
	}
	return list, db.Explain(rows.Err())
}

// groupQuery returns the SQL query for By. Its parameter is the first day, as days since 1970; for sessions and agents, it
// is a time in milliseconds.
func groupQuery(by Group) string {
	const sums = `, ` + sumSpent + ` FROM run_people WHERE day >= ? `
	switch by {
	case ByDay:
		return `SELECT CAST(day AS TEXT), ''` + sums + `GROUP BY day, model`
	case ByPerson:
		return `SELECT channel || ':' || person, max(name)` + sums + `GROUP BY channel, person, model`
	case BySession:
		return callsBy(`s.key`)
	case ByAgent:
		return callsBy(`coalesce(r.agent, '')`)
	}
	return `SELECT model, ''` + sums + `GROUP BY model`
}

// callsBy returns the SQL query that sums up model calls by a column, see calls.
func callsBy(column string) string {
	return `SELECT name, '', ` + sumSpent + ` FROM (` + calls(column, ``) + `) AS calls GROUP BY name, model`
}

// calls returns the SQL query for runs, and for the model calls that were made after their commits: a column of the sessions s or the
// runs r as name, the model, its tokens and their cost. Its parameter ?1 is the time in milliseconds from which on they count, and condition is
// a further condition on the session.
func calls(column, condition string) string {
	return `
		SELECT ` + column + ` AS name, r.model AS model, r.prompt_tokens, r.cached_tokens, r.completion_tokens, r.cost
		FROM runs r JOIN conversations c ON c.id = r.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE r.kind = 'agent' AND r.ended_at >= ?1 AND c.deleted = 0 ` + condition + `
		UNION ALL ` + backgroundCalls(column+`,`) + `JOIN conversations c ON c.id = b.conversation_id JOIN sessions s ON s.id = c.session_id
		LEFT JOIN runs r ON r.id = b.run_id
		WHERE b.started_at >= ?1 AND c.deleted = 0 ` + condition
}

// backgroundCalls returns the beginning of the SQL query for the model calls that were made after the commits of runs: columns, and
// the model, its tokens and their cost.
func backgroundCalls(columns string) string {
	number := func(name string) string { return `CAST(` + db.Member("b.step", name) + ` AS BIGINT)` }
	tokens := func(name string) string { return `coalesce(` + number(name) + `, 0)` }
	return `SELECT ` + columns + ` coalesce(` + db.Member("b.step", "name") + `, '') AS model, ` + tokens("in") + ` AS prompt_tokens, ` +
		tokens("cached") + ` AS cached_tokens, ` + tokens("out") + ` AS completion_tokens, ` + number("cost") + ` AS cost FROM background_steps b `
}
