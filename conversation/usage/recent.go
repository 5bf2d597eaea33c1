package usage

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
)

// maxRecent is how many runs Recent looks at. With more in the last hour, the oldest buckets show fewer than there were.
const maxRecent = 20_000

// Recent sums up the runs that answered somebody and ended between two times, in buckets of any length. It reads the
// newest runs themselves, and so shows the last hour in more detail than Stats, which counts in hours.
func (u *Usage) Recent(ctx context.Context, from, to time.Time, bucket time.Duration) ([]Bucket, error) {
	var buckets []Bucket
	for at := from; at.Before(to) && len(buckets) < maxBuckets; at = at.Add(bucket) {
		buckets = append(buckets, Bucket{At: at})
	}
	rows, err := u.db.QueryContext(ctx, `
		SELECT status, messages, prompt_tokens, cached_tokens, completion_tokens, ended_at, `+runtotals.Took("newest")+`
		FROM (SELECT * FROM runs ORDER BY id DESC LIMIT ?) AS newest WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ?`,
		maxRecent, db.Millis(from), db.Millis(to))
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
		buckets[n].P50, buckets[n].P95 = quantile(took[n], 50), quantile(took[n], 95)
	}
	return buckets, db.Explain(rows.Err())
}

func scanRecent(rows *sql.Rows) (one Totals, ended time.Time, err error) {
	var status conversation.Status
	var at, took int64
	err = rows.Scan(&status, &one.Messages, &one.Prompt, &one.Cached, &one.Completion, &at, &took)
	one.Runs, one.Took = 1, time.Duration(took)*time.Millisecond
	switch status {
	case conversation.StatusFailed:
		one.Failed = 1
	case conversation.StatusStopped:
		one.Stopped = 1
	}
	return one, db.FromMillis(at), err
}

// quantile returns how long a percentage of the runs took at most. The list is sorted.
func quantile(list []time.Duration, percent int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[(len(list)*percent+99)/100-1]
}
