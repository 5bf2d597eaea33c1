// Package usage reports what runs and model calls have used: sums over time, and the trace of one conversation.
package usage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
)

// Usage reads statistics. It is safe for concurrent use.
type Usage struct {
	store *conversation.Store
	db    *db.DB
}

// New returns the statistics of a store.
func New(store *conversation.Store) *Usage { return &Usage{store: store, db: store.DB()} }

// Stats are sums over the runs that answered somebody and ended in a period.
type Stats struct {
	From, To time.Time // the period in whole hours, without To itself
	Buckets  []Bucket  // the buckets of the period, the oldest first, also those without runs
	Models   []Share   // sums by channel and model, those with the most runs first
	People   []Share   // sums by channel, person and model, those with the most runs first; for whole days in UTC

	Embeddings []Embeddings // requests for vectors by model, those with the most requests first
}

// Bucket is a part of a period.
type Bucket struct {
	At time.Time // its beginning
	Totals
	P50, P95 time.Duration // the median and the 95th percentile of the runs' durations; Stats estimates them within a factor of 2
}

// Share is the use of one model by a channel, or by one person in it.
type Share struct {
	Channel string
	Person  conversation.Sender // only in Stats.People; without an ID if the person is not known
	Model   string
	Cost    Cost
	Totals
}

// Totals are sums over runs.
type Totals struct {
	Runs       int64
	Failed     int64         // the runs that failed
	Stopped    int64         // the runs that were stopped
	Messages   int64         // the messages that the runs added to conversations, of all roles
	Prompt     int64         // tokens
	Cached     int64         // the tokens of Prompt that the model's server took from its cache
	Completion int64         // tokens
	Took       time.Duration // the sum of the runs' durations, without the time in which they waited for answers of people
}

// Add adds the sums o to t.
func (t *Totals) Add(o Totals) {
	t.Runs += o.Runs
	t.Failed += o.Failed
	t.Stopped += o.Stopped
	t.Messages += o.Messages
	t.Prompt += o.Prompt
	t.Cached += o.Cached
	t.Completion += o.Completion
	t.Took += o.Took
}

// CachedPercent returns the percentage of prompt tokens that came from a cache, rounded; 0 if there are no prompt tokens.
func (t Totals) CachedPercent() int64 { return (100*t.Cached + t.Prompt/2) / max(t.Prompt, 1) }

// maxBuckets limits the buckets of one result. It is more than a plot can show, and more than the hours of a year.
const maxBuckets = 10_000

// Stats sums up the period from one time to another, in buckets of a length. from is rounded down to a whole hour, to and bucket
// are rounded up. Times outside of the years 1 to 9999 in UTC are left out. The error is conversation.ErrInvalid if the period
// is empty then, if the bucket is not longer than zero, or if there are more than 10,000 buckets.
func (u *Usage) Stats(ctx context.Context, from, to time.Time, bucket time.Duration) (Stats, error) {
	first, end := hourOf(from), hourOf(to.Add(time.Hour-1))
	hours := int64(bucket / time.Hour)
	if bucket%time.Hour > 0 {
		hours++
	}
	switch {
	case bucket <= 0 || end <= first:
		return Stats{}, fmt.Errorf("%w: the period is empty, or its buckets are not longer than zero", conversation.ErrInvalid)
	case (end-first+hours-1)/hours > maxBuckets:
		return Stats{}, fmt.Errorf("%w: the period has more than %d buckets", conversation.ErrInvalid, maxBuckets)
	}
	u.db.CatchUp(ctx, runtotals.Update)
	stats := Stats{From: atHour(first), To: atHour(end)}
	for hour := first; hour < end; hour += hours {
		stats.Buckets = append(stats.Buckets, Bucket{At: atHour(hour)})
	}
	p := period{first, end, hours}
	err := u.sum(ctx, p, stats.Buckets)
	if err == nil {
		err = u.estimate(ctx, p, stats.Buckets)
	}
	if err == nil {
		stats.Models, err = u.models(ctx, p)
	}
	if err == nil {
		stats.People, err = u.people(ctx, p)
	}
	if err == nil {
		stats.Embeddings, err = u.embeddings(ctx, p)
	}
	return stats, db.Explain(err)
}

// period is a period in hours since 1970, without the hour end. bucket is the number of hours in each bucket.
type period struct{ first, end, bucket int64 }

// firstHour and lastHour are the first and the last hour that RFC 3339 can write, in hours since 1970.
var (
	firstHour = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix() / 3600
	lastHour  = time.Date(9999, time.December, 31, 23, 0, 0, 0, time.UTC).Unix() / 3600
)

// hourOf returns the hour in which a time lies, at least firstHour and at most lastHour.
func hourOf(t time.Time) int64 {
	hour := t.Unix() / 3600
	if t.Unix()%3600 < 0 {
		hour--
	}
	return min(max(hour, firstHour), lastHour)
}

func atHour(hour int64) time.Time { return time.UnixMilli(hour * time.Hour.Milliseconds()) }

// sumTotals are the columns that Totals.fields reads.
const sumTotals = `sum(runs), sum(failed), sum(stopped), sum(messages), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(took)`

// fields returns the destinations of a Scan of sumTotals. took receives milliseconds.
func (t *Totals) fields(took *int64) []any {
	return []any{&t.Runs, &t.Failed, &t.Stopped, &t.Messages, &t.Prompt, &t.Cached, &t.Completion, took}
}

// sum sets the totals of the buckets.
func (u *Usage) sum(ctx context.Context, p period, buckets []Bucket) error {
	rows, err := u.db.QueryContext(ctx, `
		SELECT (hour - ?1) / ?3, `+sumTotals+` FROM run_totals WHERE hour >= ?1 AND hour < ?2 GROUP BY 1`,
		p.first, p.end, p.bucket)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n, took int64
		var sum Totals
		if err := rows.Scan(append([]any{&n}, sum.fields(&took)...)...); err != nil {
			return err
		}
		sum.Took = time.Duration(took) * time.Millisecond
		buckets[n].Totals = sum
	}
	return rows.Err()
}

// estimate sets the estimated percentiles of the buckets.
func (u *Usage) estimate(ctx context.Context, p period, buckets []Bucket) error {
	rows, err := u.db.QueryContext(ctx, `
		SELECT (hour - ?1) / ?3, within, sum(runs) FROM run_durations WHERE hour >= ?1 AND hour < ?2 GROUP BY 1, 2 ORDER BY 1, 2`,
		p.first, p.end, p.bucket)
	if err != nil {
		return err
	}
	defer rows.Close()
	classes := make([][]durationClass, len(buckets))
	for rows.Next() {
		var n int64
		var c durationClass
		if err := rows.Scan(&n, &c.within, &c.runs); err != nil {
			return err
		}
		classes[n] = append(classes[n], c)
	}
	for n := range buckets {
		buckets[n].P50, buckets[n].P95 = estimatedQuantile(classes[n], 0.5), estimatedQuantile(classes[n], 0.95)
	}
	return rows.Err()
}

// durationClass is the number of runs that took at most within milliseconds, and more than half of that. The first class has all
// shorter runs, too, and the last one all longer runs.
type durationClass struct{ within, runs int64 }

// estimatedQuantile estimates the duration that a share of the runs, from 0 to 1, did not exceed. It assumes that the durations
// in a class are spread evenly.
func estimatedQuantile(classes []durationClass, share float64) time.Duration {
	all := int64(0)
	for _, c := range classes {
		all += c.runs
	}
	rank := share * float64(all)
	for _, c := range classes {
		if rank <= float64(c.runs) && c.runs > 0 {
			low := float64(c.within) / 2
			return time.Duration((low + low*rank/float64(c.runs)) * float64(time.Millisecond))
		}
		rank -= float64(c.runs)
	}
	return 0
}

func (u *Usage) models(ctx context.Context, p period) ([]Share, error) {
	return u.shares(ctx, `
		SELECT channel, '', model, '', `+sumTotals+`, `+sumCosts+` FROM run_totals WHERE hour >= ? AND hour < ?
		GROUP BY channel, model ORDER BY sum(runs) DESC, channel, model`, p.first, p.end)
}

func (u *Usage) people(ctx context.Context, p period) ([]Share, error) {
	const day = 24
	return u.shares(ctx, `
		SELECT channel, person, model, max(name), `+sumTotals+`, `+sumCosts+` FROM run_people WHERE day >= ? AND day < ?
		GROUP BY channel, person, model ORDER BY sum(runs) DESC, channel, person, model`, p.first/day, (p.end+day-1)/day)
}

func (u *Usage) shares(ctx context.Context, query string, args ...any) (list []Share, err error) {
	rows, err := u.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s Share
		var took int64
		err := rows.Scan(slices.Concat([]any{&s.Channel, &s.Person.ID, &s.Model, &s.Person.Name}, s.fields(&took), s.Cost.fields())...)
		if err != nil {
			return nil, err
		}
		s.Took = time.Duration(took) * time.Millisecond
		list = append(list, s)
	}
	return list, rows.Err()
}
