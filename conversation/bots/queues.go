package bots

import (
	"cmp"
	"context"
	"time"

	"parley/conversation/internal/db"
)

// Queue counts the messages and replies that wait for a bot of a channel, or for a channel without bots.
type Queue struct {
	Channel       string
	Account       string    // the platform's id of the bot; "" where there is none, or it is not known
	Waiting       int64     // inbound that no run has settled
	OldestWaiting time.Time // when the oldest waiting inbound was written, as the platform says; zero = none waits
	Due           int64     // deliveries to be sent
	DueSessions   int64     // sessions of these deliveries
	OldestDue     time.Time // when the run of the oldest due delivery ended; zero = none is due
	Held          int64     // deliveries of Due that are set aside
	OldestHeld    time.Time // since when the oldest of Held is set aside; zero = none is
}

// Plus returns both queues as one. It has the channel and the bot of q, or those of o where q has none.
func (q Queue) Plus(o Queue) Queue {
	return Queue{
		Channel: cmp.Or(q.Channel, o.Channel), Account: cmp.Or(q.Account, o.Account),
		Waiting: q.Waiting + o.Waiting, OldestWaiting: earlier(q.OldestWaiting, o.OldestWaiting),
		Due: q.Due + o.Due, DueSessions: q.DueSessions + o.DueSessions, OldestDue: earlier(q.OldestDue, o.OldestDue),
		Held: q.Held + o.Held, OldestHeld: earlier(q.OldestHeld, o.OldestHeld),
	}
}

// earlier returns the earlier of two times; the zero time stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Queues returns what waits, ordered by channel and bot; a channel in which nothing waits has no queue.
func (b *Bots) Queues(ctx context.Context) ([]Queue, error) {
	rows, err := b.db.QueryContext(ctx, `
		SELECT channel, account, sum(waiting), coalesce(min(CASE WHEN waiting = 1 THEN at END), 0), sum(due), coalesce(min(CASE WHEN due = 1 THEN at END), 0),
			count(held_at), coalesce(min(held_at), 0), count(DISTINCT session_id)
		FROM (
			SELECT channel, account, 1 AS waiting, 0 AS due, sent_at AS at, CAST(NULL AS BIGINT) AS held_at, CAST(NULL AS BIGINT) AS session_id FROM inbox WHERE run_id IS NULL AND note = 0
			UNION ALL
			SELECT channel, account, 0, 1, created_at, held_at, session_id FROM outbox WHERE state = 'due') AS queued
		GROUP BY channel, account ORDER BY channel, account`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Queue
	for rows.Next() {
		var q Queue
		var waiting, due, held int64
		if err := rows.Scan(&q.Channel, &q.Account, &q.Waiting, &waiting, &q.Due, &due, &q.Held, &held, &q.DueSessions); err != nil {
			return nil, err
		}
		q.OldestWaiting, q.OldestDue = db.FromMillis(waiting), db.FromMillis(due)
		q.OldestHeld = db.FromMillis(held)
		list = append(list, q)
	}
	return list, db.Explain(rows.Err())
}
