package conversation

import (
	"context"
	"fmt"
	"time"

	"parley/conversation/internal/db"
)

// Stats are sums over the runs that answered somebody, and ended in a time.
type Stats struct {
	From, To time.Time // whole hours
	Buckets  []Bucket  // of the time, oldest first, those without runs too
	Usage    []Usage   // by channel and model, the most runs first
	People   []Usage   // by channel, person and model, likewise; of whole days in UTC
}

// Bucket is a stretch of time.
type Bucket struct {
	At time.Time // its begin
	RunTotals
	P50, P95 time.Duration // what half, and 95 of 100, of the runs took at most; estimated within a factor of 2
}

// Usage is what a channel, or one person in it, had of one model.
type Usage struct {
	Channel string
	Person  Sender // of People; without an ID where nobody said who it was
	Model   string
	RunTotals
}

// RunTotals are sums over runs.
type RunTotals struct {
	Runs       int64
	Failed     int64 // of Runs
	Stopped    int64 // of Runs
	Messages   int64 // added to conversations, of all roles
	Prompt     int64 // tokens
	Completion int64
	Took       time.Duration
}

// Add adds other sums.
func (t *RunTotals) Add(o RunTotals) {
	t.Runs += o.Runs
	t.Failed += o.Failed
	t.Stopped += o.Stopped
	t.Messages += o.Messages
	t.Prompt += o.Prompt
	t.Completion += o.Completion
	t.Took += o.Took
}

// maxBuckets is how many buckets may be asked for at once: more than a plot can
// show, and a year of hours.
const maxBuckets = 10_000

// Stats sums up the time from from to to in buckets, each of so many hours; all
// three are taken in whole hours, to and the bucket rounded up, and what lies
// outside of the years 1 to 9999 in UTC is left out. No time, or more than 10,000
// buckets, is ErrInvalid.
func (s *Store) Stats(ctx context.Context, from, to time.Time, bucket time.Duration) (Stats, error) {
	first, end := hourOf(from), hourOf(to.Add(time.Hour-1))
	hours := int64(bucket / time.Hour)
	if bucket%time.Hour > 0 {
		hours++
	}
	switch {
	case bucket <= 0 || end <= first:
		return Stats{}, fmt.Errorf("%w: a time of less than an hour in the years 1 to 9999, or buckets of none", ErrInvalid)
	case (end-first)/hours >= maxBuckets:
		return Stats{}, fmt.Errorf("%w: the time has more than %d buckets", ErrInvalid, maxBuckets)
	}
	s.db.CatchUp(ctx, sumRuns)
	stats := Stats{From: atHour(first), To: atHour(end)}
	for hour := first; hour < end; hour += hours {
		stats.Buckets = append(stats.Buckets, Bucket{At: atHour(hour)})
	}
	span := hourSpan{first, end, hours}
	err := s.sumBuckets(ctx, span, stats.Buckets)
	if err == nil {
		err = s.estimate(ctx, span, stats.Buckets)
	}
	if err == nil {
		stats.Usage, err = s.usage(ctx, span)
	}
	if err == nil {
		stats.People, err = s.people(ctx, span)
	}
	return stats, db.Explain(err)
}

// hourSpan is some hours, in buckets of so many.
type hourSpan struct{ first, end, bucket int64 }

// firstHour and lastHour are the first and the last one that RFC 3339 can write.
var (
	firstHour = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix() / 3600
	lastHour  = time.Date(9999, time.December, 31, 23, 0, 0, 0, time.UTC).Unix() / 3600
)

// hourOf returns the hour in which a time lies, within firstHour and lastHour.
func hourOf(t time.Time) int64 {
	hour := t.Unix() / 3600
	if t.Unix()%3600 < 0 {
		hour--
	}
	return min(max(hour, firstHour), lastHour)
}

func atHour(hour int64) time.Time { return time.UnixMilli(hour * time.Hour.Milliseconds()) }

const sumTotals = `sum(runs), sum(failed), sum(stopped), sum(messages), sum(prompt_tokens), sum(completion_tokens), sum(took)`

// into are the places for sumTotals; took is in milliseconds.
func (t *RunTotals) into(took *int64) []any {
	return []any{&t.Runs, &t.Failed, &t.Stopped, &t.Messages, &t.Prompt, &t.Completion, took}
}

func (s *Store) sumBuckets(ctx context.Context, span hourSpan, buckets []Bucket) error {
	rows, err := s.db.QueryContext(ctx, `
		SELECT (hour - ?1) / ?3, `+sumTotals+` FROM run_totals WHERE hour >= ?1 AND hour < ?2 GROUP BY 1`,
		span.first, span.end, span.bucket)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n, took int64
		var sum RunTotals
		if err := rows.Scan(append([]any{&n}, sum.into(&took)...)...); err != nil {
			return err
		}
		sum.Took = time.Duration(took) * time.Millisecond
		buckets[n].RunTotals = sum
	}
	return rows.Err()
}

// estimate says what the runs of the buckets took.
func (s *Store) estimate(ctx context.Context, span hourSpan, buckets []Bucket) error {
	rows, err := s.db.QueryContext(ctx, `
		SELECT (hour - ?1) / ?3, within, sum(runs) FROM run_durations WHERE hour >= ?1 AND hour < ?2 GROUP BY 1, 2 ORDER BY 1, 2`,
		span.first, span.end, span.bucket)
	if err != nil {
		return err
	}
	defer rows.Close()
	classes := make([][]durations, len(buckets))
	for rows.Next() {
		var n int64
		var d durations
		if err := rows.Scan(&n, &d.within, &d.runs); err != nil {
			return err
		}
		classes[n] = append(classes[n], d)
	}
	for n := range buckets {
		buckets[n].P50, buckets[n].P95 = quantile(classes[n], 0.5), quantile(classes[n], 0.95)
	}
	return rows.Err()
}

// durations are runs of one class: they took at most so many milliseconds, and
// more than half of it.
type durations struct{ within, runs int64 }

// quantile estimates what a part of the runs took at most, as if those of a class
// were spread over it evenly.
func quantile(classes []durations, part float64) time.Duration {
	all := int64(0)
	for _, c := range classes {
		all += c.runs
	}
	rank := part * float64(all)
	for _, c := range classes {
		if rank <= float64(c.runs) && c.runs > 0 {
			low := float64(c.within) / 2
			return time.Duration((low + low*rank/float64(c.runs)) * float64(time.Millisecond))
		}
		rank -= float64(c.runs)
	}
	return 0
}

func (s *Store) usage(ctx context.Context, span hourSpan) ([]Usage, error) {
	return s.readUsage(ctx, `
		SELECT channel, '', model, '', `+sumTotals+` FROM run_totals WHERE hour >= ? AND hour < ?
		GROUP BY channel, model ORDER BY sum(runs) DESC, channel, model`, span.first, span.end)
}

func (s *Store) people(ctx context.Context, span hourSpan) ([]Usage, error) {
	const day = 24
	return s.readUsage(ctx, `
		SELECT channel, person, model, max(name), `+sumTotals+` FROM run_people WHERE day >= ? AND day < ?
		GROUP BY channel, person, model ORDER BY sum(runs) DESC, channel, person, model`, span.first/day, (span.end+day-1)/day)
}

func (s *Store) readUsage(ctx context.Context, query string, args ...any) (list []Usage, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var u Usage
		var took int64
		err := rows.Scan(append([]any{&u.Channel, &u.Person.ID, &u.Model, &u.Person.Name}, u.into(&took)...)...)
		if err != nil {
			return nil, err
		}
		u.Took = time.Duration(took) * time.Millisecond
		list = append(list, u)
	}
	return list, rows.Err()
}
