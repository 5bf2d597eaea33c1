package discord

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"parley/internal/clock"

	"github.com/cenkalti/backoff/v5"
)

const maxBackoff = 30 * time.Second

// retry waits longer and longer, and logs a trouble when it begins, and when
// it is over.
type retry struct {
	log     *slog.Logger
	backoff *backoff.ExponentialBackOff
	trouble bool
}

func newRetry(log *slog.Logger) *retry {
	b := backoff.NewExponentialBackOff()
	b.MaxInterval = maxBackoff
	return &retry{log: log, backoff: b}
}

// after waits before something is tried again, at least as long as Discord
// asks for. It returns an error when ctx ended.
func (r *retry) after(ctx context.Context, text string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !r.trouble {
		r.trouble = true
		r.log.Warn(text, "error", err)
	}
	return clock.Sleep(ctx, max(refused(err).retryAfter, r.backoff.NextBackOff()))
}

// over ends the trouble, if there was one.
func (r *retry) over(text string) {
	if r.trouble {
		r.log.Info(text)
	}
	r.trouble = false
	r.backoff.Reset()
}

// isFinal tells a refusal, which the same request would meet again, from what
// may pass later. A token that is refused for good ends the channel.
func isFinal(err error) bool {
	status := refused(err).status
	return status != 0 && status != http.StatusTooManyRequests && status != http.StatusUnauthorized
}
