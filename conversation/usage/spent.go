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

// OfSession returns what the runs of a session that ended since a time have used, by model. Runs of a deleted conversation count
// until a chore has removed their rows.
func (u *Usage) OfSession(ctx context.Context, key conversation.Key, since time.Time) ([]Spent, error) {
	return u.spent(ctx, `
		SELECT r.model, sum(r.prompt_tokens), sum(r.cached_tokens), sum(r.completion_tokens)
		FROM sessions s JOIN conversations c ON c.session_id = s.id JOIN runs r ON r.conversation_id = c.id
		WHERE s.key = ? AND r.ended_at >= ? AND r.kind = 'agent' GROUP BY r.model`, string(key), db.Millis(since))
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
