package telegram

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
)

// token tracks whether Telegram accepts the bot token. While it does not, one
// goroutine keeps asking, and the intake waits for it.
type token struct {
	probes channels.Probes
	setAt  string        // where the operator finds the token
	doubts chan struct{} // signals that Telegram refused a message with 401

	mu    sync.Mutex
	taken chan struct{} // closed when Telegram accepts the token again; nil: the token is not rejected
}

func newToken(probes channels.Probes, setAt string) token {
	return token{probes: probes, setAt: cmp.Or(setAt, "token in [telegram]"), doubts: make(chan struct{}, 1)}
}

// reject notes that Telegram rejects the token. first is true for the first to
// notice; accepted is closed when Telegram accepts the token again.
func (t *token) reject() (accepted chan struct{}, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if first = t.taken == nil; first {
		t.taken = make(chan struct{})
	}
	return t.taken, first
}

// accept notes that Telegram takes the token.
func (t *token) accept() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken != nil {
		close(t.taken)
		t.taken = nil
	}
}

func (t *token) isRejected() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken != nil
}

// check makes guardToken try the token.
func (t *token) check() {
	select {
	case t.doubts <- struct{}{}:
	default:
	}
}

// errRejected is the error of messages while Telegram rejects the token.
var errRejected = errors.New("not sent: Telegram rejects the bot token")

// isRejection reports whether err says that the server does not know the token:
// 401 for one that was revoked, 404 for one that never existed.
func isRejection(err error) bool {
	refused := refusal(err)
	return refused != nil && (refused.Code == http.StatusUnauthorized || refused.Code == http.StatusNotFound)
}

// untilTaken waits until Telegram accepts the token that it has rejected with err. The first caller
// asks Telegram repeatedly, the others wait for the result. It returns an error when ctx ends.
func (c *Channel) untilTaken(ctx context.Context, err error) error {
	taken, first := c.token.reject()
	if first {
		defer c.token.accept() // at the end of ctx nobody asks any more
		words := fmt.Sprintf("Telegram rejects the bot token (%s). Check it (%s) against the one that @BotFather shows, "+
			"and api_url if it is set; a new token needs a restart. The gateway asks again by itself, and goes on when Telegram takes this one", err, c.token.setAt)
		c.health.rejected(words)
		c.log.Error(words)
		return c.probe(ctx, taken)
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probe asks for the bot, less and less often, until Telegram takes the token.
// Other failures say nothing about the token.
func (c *Channel) probe(ctx context.Context, taken <-chan struct{}) error {
	waits := c.token.probes.BackOff()
	var err error
	for {
		wait := waits.NextBackOff()
		c.log.Debug("token rejected, trying again later", "wait", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			var user tgbotapi.User
			if err = c.api.call(ctx, requestTimeout, "getMe", nil, &user); err != nil {
				continue
			}
		case <-taken: // a poll was answered
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		c.log.Info("token accepted by Telegram again")
		c.answered()
		return nil
	}
}

// answered notes that Telegram has answered a call, and so accepts the token.
func (c *Channel) answered() {
	c.token.accept()
	c.health.up()
}

// guardToken checks the token whenever a message was refused with 401, until ctx ends. A long poll
// would notice a rejected token only at its end.
func (c *Channel) guardToken(ctx context.Context) error {
	for {
		select {
		case <-c.token.doubts:
		case <-ctx.Done():
			return ctx.Err()
		}
		var user tgbotapi.User
		if err := c.api.call(ctx, requestTimeout, "getMe", nil, &user); isRejection(err) {
			if err := c.untilTaken(ctx, err); err != nil {
				return err
			}
		}
	}
}
