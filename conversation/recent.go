package conversation

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"parley/conversation/internal/db"
)

// mostRecent is how many runs Recent looks at: with more in an hour, its oldest
// buckets show fewer than there were.
const mostRecent = 20_000

// Recent sums up the runs that answered somebody and ended between two times, in
// buckets of any length: what Stats, which counts in hours, can't tell of the
// last one. It is read from the newest runs themselves.
func (s *Store) Recent(ctx context.Context, from, to time.Time, bucket time.Duration) ([]Bucket, error) {
	var buckets []Bucket
	for at := from; at.Before(to) && len(buckets) < maxBuckets; at = at.Add(bucket) {
		buckets = append(buckets, Bucket{At: at})
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT status, messages, prompt_tokens, completion_tokens, ended_at, max(ended_at - started_at, 0)
		FROM (SELECT * FROM runs ORDER BY id DESC LIMIT ?) WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ?`,
		mostRecent, db.Millis(from), db.Millis(to))
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	took := make([][]time.Duration, len(buckets))
	for rows.Next() {
		one, ended, err := scanRecent(rows)
		if err != nil {
			return nil, err
		}
		if n := int(ended.Sub(from) / bucket); n >= 0 && n < len(buckets) {
			buckets[n].Add(one)
			took[n] = append(took[n], one.Took)
		}
	}
	for n := range buckets {
		slices.Sort(took[n])
		buckets[n].P50, buckets[n].P95 = exactQuantile(took[n], 50), exactQuantile(took[n], 95)
	}
	return buckets, db.Explain(rows.Err())
}

func scanRecent(rows *sql.Rows) (one RunTotals, ended time.Time, err error) {
	var status Status
	var at, took int64
	err = rows.Scan(&status, &one.Messages, &one.Prompt, &one.Completion, &at, &took)
	one.Runs, one.Took = 1, time.Duration(took)*time.Millisecond
	switch status {
	case StatusFailed:
		one.Failed = 1
	case StatusStopped:
		one.Stopped = 1
	}
	return one, db.FromMillis(at), err
}

// exactQuantile is what so many of 100 took at most; list is sorted.
func exactQuantile(list []time.Duration, of100 int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[(len(list)*of100+99)/100-1]
}
