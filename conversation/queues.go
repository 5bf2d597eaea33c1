package conversation

import (
	"context"
	"time"
)

// Queue is what waits in a channel.
type Queue struct {
	Channel       string
	Waiting       int64     // inbound that no run has settled
	OldestWaiting time.Time // when the platform says that the oldest was written; zero for none
	Due           int64     // deliveries to be sent
	OldestDue     time.Time // when its run ended; zero for none
	Held          int64     // of the due ones, those that are set aside
	OldestHeld    time.Time // since when the oldest of them is set aside; zero for none
}

// Queues says what waits in the channels that anything waits in, by name.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	rows, err := s.readers.QueryContext(ctx, `
		SELECT channel, sum(waiting), coalesce(min(CASE WHEN waiting THEN at END), 0), sum(due), coalesce(min(CASE WHEN due THEN at END), 0),
			count(held_at), coalesce(min(held_at), 0)
		FROM (
			SELECT channel, 1 AS waiting, 0 AS due, sent_at AS at, NULL AS held_at FROM inbox WHERE run_id IS NULL AND note = 0
			UNION ALL
			SELECT channel, 0, 1, created_at, held_at FROM outbox WHERE state = 'due')
		GROUP BY channel ORDER BY channel`)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	var list []Queue
	for rows.Next() {
		var q Queue
		var waiting, due, held int64
		if err := rows.Scan(&q.Channel, &q.Waiting, &waiting, &q.Due, &due, &q.Held, &held); err != nil {
			return nil, err
		}
		q.OldestWaiting, q.OldestDue = fromMillis(waiting), fromMillis(due)
		q.OldestHeld = fromMillis(held)
		list = append(list, q)
	}
	return list, explain(rows.Err())
}
