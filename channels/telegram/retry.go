package telegram

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"parley/internal/clock"

	"github.com/cenkalti/backoff/v5"
)

const maxBackoff = 30 * time.Second

// retry waits longer and longer, and logs a trouble when it begins, when it
// becomes another, and when it is over.
type retry struct {
	log     *slog.Logger
	backoff *backoff.ExponentialBackOff
	trouble string
}

func newRetry(log *slog.Logger) *retry {
	b := backoff.NewExponentialBackOff()
	b.MaxInterval = maxBackoff
	return &retry{log: log, backoff: b}
}

// after waits before a call to Telegram is made again. It returns an error
// when ctx ended. A rejected token is not its concern: see untilTaken.
func (r *retry) after(ctx context.Context, err error) error {
	refused := refusal(err)
	var garbled *garbledError
	trouble, level, text, least := "network", slog.LevelWarn, "Telegram can't be reached, trying again", time.Duration(0)
	switch {
	case errors.Is(err, errServer):
		trouble, text = "server", "Telegram's server fails, trying again"
	case errors.As(err, &garbled) || errors.Is(err, errResult):
		trouble, text = "answer", "what answers in Telegram's place can't be understood, trying again"
	case errors.Is(err, errNoIDs):
		trouble, level, text = "ids", slog.LevelError, "Telegram's updates have no ids, so none of them can be confirmed: "+
			"their messages are taken, and Telegram gives the same ones again until an update with an id follows them"
	case refused == nil:
	case isWebhookConflict(err):
		trouble, text = "webhook", "a webhook takes this bot's messages, so none arrive here. "+
			"If nothing else needs it, remove it with the method deleteWebhook; this gateway does not, since the webhook may be another program's"
	case refused.Code == http.StatusConflict:
		trouble, text = "conflict", "another program polls with this bot's token, and Telegram gives each message to one of them only. Stop the other one"
	default:
		trouble, text, least = "refused", "Telegram refuses to answer, trying again", time.Duration(refused.RetryAfter)*time.Second
	}
	return r.wait(ctx, trouble, level, text, err, least)
}

// isWebhookConflict tells that Telegram answers no polls while a webhook is set.
func isWebhookConflict(err error) bool {
	refused := refusal(err)
	return refused != nil && refused.Code == http.StatusConflict && strings.Contains(refused.Message, "webhook")
}

// wait logs a trouble that is new, and waits for the backoff, or for least if
// that is longer. It returns an error when ctx ended.
func (r *retry) wait(ctx context.Context, trouble string, level slog.Level, text string, err error, least time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.trouble != trouble {
		r.trouble = trouble
		r.log.Log(ctx, level, text, "trouble", trouble, "error", err)
	}
	return clock.Sleep(ctx, max(least, r.backoff.NextBackOff()))
}

// over ends the trouble, if there was one.
func (r *retry) over() {
	if r.trouble == "" {
		return
	}
	r.log.Info("resolved", "trouble", r.trouble)
	r.trouble = ""
	r.backoff.Reset()
}
