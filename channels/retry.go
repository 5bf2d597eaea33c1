package channels

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"parley/internal/clock"
)

// maxBackoff is the longest wait of a Retry, unless the platform asks for more.
const maxBackoff = 30 * time.Second

// Retry waits between attempts with exponential backoff. It logs a trouble when it
// begins, when another one replaces it and when it is over, but not each attempt. It must be
// used by one goroutine at a time.
type Retry struct {
	log     *slog.Logger
	waits   *backoff.ExponentialBackOff
	failing bool
	trouble string // Name of the trouble at which failing began
}

// Trouble is why attempts fail.
type Trouble struct {
	Name  string // identifies the trouble, and is logged; "" where there is only one kind
	Level slog.Level
	Text  string // the message of the log entry
}

// NewRetry returns a Retry for a series of attempts.
func NewRetry(log *slog.Logger) *Retry {
	waits := backoff.NewExponentialBackOff()
	waits.MaxInterval = maxBackoff
	return &Retry{log: log, waits: waits}
}

// Wait waits before the next attempt, for at least the time that the platform asks
// for. err is why the last one failed. It returns an error when ctx ends.
func (r *Retry) Wait(ctx context.Context, trouble Trouble, err error, atLeast time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !r.failing || r.trouble != trouble.Name {
		r.failing, r.trouble = true, trouble.Name
		r.named().Log(ctx, trouble.Level, trouble.Text, "error", err)
	}
	return clock.Sleep(ctx, max(atLeast, r.waits.NextBackOff()))
}

// Succeeded ends the trouble, if there is one, and logs text.
func (r *Retry) Succeeded(text string) {
	if r.failing {
		r.named().Info(text)
	}
	r.failing, r.trouble = false, ""
	r.waits.Reset()
}

// IsFailing reports whether the last attempt failed.
func (r *Retry) IsFailing() bool { return r.failing }

func (r *Retry) named() *slog.Logger {
	if r.trouble == "" {
		return r.log
	}
	return r.log.With("trouble", r.trouble)
}

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
