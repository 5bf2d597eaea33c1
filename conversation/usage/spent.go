package usage

import (
	"context"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
)

// Spent is what the calls of one model have used.
type Spent struct {
	Model                      string
	Prompt, Cached, Completion int64 // tokens; Cached are those of Prompt that the model's server took from its cache
}

// OfPerson returns what model calls for a person of a channel have used, by model, since the beginning of the day in UTC in which
// since lies.
func (u *Usage) OfPerson(ctx context.Context, channel, person string, since time.Time) ([]Spent, error) {
	u.db.CatchUp(ctx, runtotals.Update)
	return u.spent(ctx, `
		SELECT model, sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens) FROM run_people
		WHERE day >= ? AND channel = ? AND person = ? GROUP BY model`, hourOf(since)/24, channel, person)
}

// OfSession returns what model calls in a session have used since a time, by model, without those of deleted conversations.
func (u *Usage) OfSession(ctx context.Context, key conversation.Key, since time.Time) ([]Spent, error) {
	return u.spent(ctx, `
		SELECT model, sum(prompt), sum(cached), sum(completion) FROM (`+calls(`s.key`, `AND s.key = ?2`)+`) AS calls GROUP BY model`,
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
		if err := rows.Scan(&s.Model, &s.Prompt, &s.Cached, &s.Completion); err != nil {
			return nil, db.Explain(err)
		}
		list = append(list, s)
	}
	return list, db.Explain(rows.Err())
}
