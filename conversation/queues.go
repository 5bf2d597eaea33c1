package conversation

import (
	"cmp"
	"context"
	"time"

	"parley/conversation/internal/db"
)

// Queue is what waits for a bot of a channel, or for a channel without bots.
type Queue struct {
	Channel       string
	Account       string    // the platform's id of the bot; "" where there is none, or it is not known
	Waiting       int64     // inbound that no run has settled
	OldestWaiting time.Time // when the platform says that the oldest was written; zero for none
	Due           int64     // deliveries to be sent
	OldestDue     time.Time // when its run ended; zero for none
	Held          int64     // of the due ones, those that are set aside
	OldestHeld    time.Time // since when the oldest of them is set aside; zero for none
}

// Plus is both queues as one, named like the first, or like the other where that
// has no name.
func (q Queue) Plus(o Queue) Queue {
	return Queue{
		Channel: cmp.Or(q.Channel, o.Channel), Account: cmp.Or(q.Account, o.Account),
		Waiting: q.Waiting + o.Waiting, OldestWaiting: earlier(q.OldestWaiting, o.OldestWaiting),
		Due: q.Due + o.Due, OldestDue: earlier(q.OldestDue, o.OldestDue),
		Held: q.Held + o.Held, OldestHeld: earlier(q.OldestHeld, o.OldestHeld),
	}
}

// earlier is the earlier of two times, of which the zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Queues says what waits in the channels that anything waits in, by channel and
// bot.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT channel, account, sum(waiting), coalesce(min(CASE WHEN waiting THEN at END), 0), sum(due), coalesce(min(CASE WHEN due THEN at END), 0),
			count(held_at), coalesce(min(held_at), 0)
		FROM (
			SELECT channel, account, 1 AS waiting, 0 AS due, sent_at AS at, NULL AS held_at FROM inbox WHERE run_id IS NULL AND note = 0
			UNION ALL
			SELECT channel, account, 0, 1, created_at, held_at FROM outbox WHERE state = 'due')
		GROUP BY channel, account ORDER BY channel, account`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Queue
	for rows.Next() {
		var q Queue
		var waiting, due, held int64
		if err := rows.Scan(&q.Channel, &q.Account, &q.Waiting, &waiting, &q.Due, &due, &q.Held, &held); err != nil {
			return nil, err
		}
		q.OldestWaiting, q.OldestDue = db.FromMillis(waiting), db.FromMillis(due)
		q.OldestHeld = db.FromMillis(held)
		list = append(list, q)
	}
	return list, db.Explain(rows.Err())
}

// Inbox lists the messages that no run has settled, at most limit, in order of
// arrival: those of a session, or of all sessions where key is "".
func (s *Store) Inbox(ctx context.Context, key Key, limit int) ([]Inbound, error) {
	if key != "" {
		list, err := s.readableInbox(ctx, s.db, key, false, limit)
		return list, db.Explain(err)
	}
	list, err := readInboxWhere(ctx, s.db, "", false, limit, `1`, nil, nil)
	return list, db.Explain(err)
}
