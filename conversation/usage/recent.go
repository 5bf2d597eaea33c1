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

// maxRecent is how many runs Recent reads, at most. If the period has more, the oldest are missing in the sums.
const maxRecent = 20_000

// Recent sums up the runs that answered somebody and ended between two times, in at most 10,000 buckets, whose length must be
// more than zero. It reads the newest 20,000 runs themselves, so that it shows the last hour in more detail than Stats, which
// has sums by hour. The percentiles are exact.
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

// quantile returns the duration that a percentage of the runs did not exceed. The list is sorted.
func quantile(list []time.Duration, percent int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[(len(list)*percent+99)/100-1]
}
