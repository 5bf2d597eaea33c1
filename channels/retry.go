package channels

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"parley/conversation"
	"parley/conversation/retry"
	"parley/internal/clock"
)

// maxBackoff is the longest wait of a Retry, unless the platform asks for more.
const maxBackoff = 30 * time.Second

// Retry waits between attempts with exponential backoff, and logs failures as an [Outage] does. It must be used by one
// goroutine at a time.
type Retry struct {
	outage  *Outage
	what    string // see Outage.Failed
	waits   *backoff.ExponentialBackOff
	failing bool
}

// NewRetry returns a Retry for a series of attempts.
func NewRetry(log *slog.Logger) *Retry { return NewOutage(log).Retry("") }

// Retry returns a Retry for a series of attempts, whose failures are logged together with others.
func (o *Outage) Retry(what string) *Retry {
	waits := backoff.NewExponentialBackOff()
	waits.MaxInterval = maxBackoff
	return &Retry{outage: o, what: what, waits: waits}
}

// Wait waits before the next attempt, for at least the time that the platform asks
// for. err is why the last one failed. It returns an error when ctx ends.
func (r *Retry) Wait(ctx context.Context, trouble Trouble, err error, atLeast time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.failing = true
	r.outage.Failed(r.what, trouble, "error", err)
	wait := r.waits.NextBackOff()
	if conversation.IsDiskFull(err) {
		wait = min(wait, retry.FullWait)
	}
	return clock.Sleep(ctx, max(atLeast, wait))
}

// Succeeded ends the trouble, if there is one, and logs text.
func (r *Retry) Succeeded(text string) {
	r.failing = false
	r.outage.Succeeded(r.what, text)
	r.waits.Reset()
}

// IsFailing reports whether the last attempt failed.
func (r *Retry) IsFailing() bool { return r.failing }

// Probes configures how often a channel tries credentials again that its platform has
// rejected: the platform may have had an outage, or the operator may have fixed them.
type Probes struct {
	First time.Duration // the first wait, which doubles from probe to probe; zero: 30 s
	Most  time.Duration // the longest wait; zero: 15 min
}

// BackOff returns the waits between the probes. Each is up to a fifth longer or
// shorter, so that many gateways do not ask at once.
func (p Probes) BackOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = cmp.Or(p.First, 30*time.Second), cmp.Or(p.Most, 15*time.Minute)
	b.Multiplier, b.RandomizationFactor = 2, 0.2
	return b
}
