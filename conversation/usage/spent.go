package usage

import (
	"context"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
	"parley/conversation/runs"
)

// Spent is what the calls of one model have used.
type Spent struct {
	Model                      string
	Prompt, Cached, Completion int64 // tokens; Cached are those of Prompt that the model's server took from its cache
	Cost                       Cost
}

// Cost is what calls of a model have cost: the sum of the costs that were stored when they were made, and the tokens of the
// calls without one, which are from before costs were stored, or of a model that had no price.
type Cost struct {
	Stored                     int64 // billionths of the currency of the prices
	Prompt, Cached, Completion int64 // tokens without a stored cost
}

// Of returns the cost in the currency of the prices. Tokens without a stored cost are priced by price, which returns what
// tokens of a model cost today. known is false if there are such tokens, and the model has no price.
func (c Cost) Of(model string, price func(model string, prompt, cached, completion int64) (cost float64, known bool)) (cost float64, known bool) {
	stored := float64(c.Stored) / billionths
	if c.Prompt+c.Completion == 0 {
		return stored, true
	}
	cost, known = price(model, c.Prompt, c.Cached, c.Completion)
	if !known {
		cost = 0
	}
	return stored + cost, known
}

// CostOf returns the cost of a single run.
func CostOf(r runs.Record) Cost {
	if r.Cost != nil {
		return Cost{Stored: *r.Cost}
	}
	return Cost{Prompt: int64(r.Prompt), Cached: int64(r.Cached), Completion: int64(r.Completion)}
}

// add adds the cost o to c.
func (c *Cost) add(o Cost) {
	c.Stored += o.Stored
	c.Prompt, c.Cached, c.Completion = c.Prompt+o.Prompt, c.Cached+o.Cached, c.Completion+o.Completion
}

// sumCosts are the columns that Cost.fields reads.
const sumCosts = `coalesce(sum(cost), 0), coalesce(sum(prompt_tokens) FILTER (WHERE cost IS NULL), 0),
	coalesce(sum(cached_tokens) FILTER (WHERE cost IS NULL), 0), coalesce(sum(completion_tokens) FILTER (WHERE cost IS NULL), 0)`

// fields returns the destinations of a Scan of sumCosts.
func (c *Cost) fields() []any { return []any{&c.Stored, &c.Prompt, &c.Cached, &c.Completion} }

// sumSpent are the columns that Spent.fields reads.
const sumSpent = `model, sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), ` + sumCosts

// fields returns the destinations of a Scan of sumSpent.
func (s *Spent) fields() []any {
	return append([]any{&s.Model, &s.Prompt, &s.Cached, &s.Completion}, s.Cost.fields()...)
}

// OfPerson returns what model calls for a person of a channel have used, by model, since the beginning of the day in UTC in which
// since lies.
func (u *Usage) OfPerson(ctx context.Context, channel, person string, since time.Time) ([]Spent, error) {
	u.db.CatchUp(ctx, runtotals.Update)
	return u.spent(ctx, `
		SELECT `+sumSpent+` FROM run_people
		WHERE day >= ? AND channel = ? AND person = ? GROUP BY model`, hourOf(since)/24, channel, person)
}

// OfSession returns what model calls in a session have used since a time, by model, without those of deleted conversations.
func (u *Usage) OfSession(ctx context.Context, key conversation.Key, since time.Time) ([]Spent, error) {
	return u.spent(ctx, `
		SELECT `+sumSpent+` FROM (`+calls(`s.key`, `AND s.key = ?2`)+`) AS calls GROUP BY model`,
		db.Millis(since), string(key))
}

func (u *Usage) spent(ctx context.Context, query string, args ...any) (list []Spent, err error) {
	rows, err := u.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s Spent
		if err := rows.Scan(s.fields()...); err != nil {
			return nil, db.Explain(err)
		}
		list = append(list, s)
	}
	return list, db.Explain(rows.Err())
}
