package telegram

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"parley/channels"
)

// intake is what the webhook's requests are worked with while Run runs.
type intake struct {
	mu     sync.RWMutex    // held for reading while an update is taken
	ctx    context.Context // ends when Run is about to; nil while Run does not run, or polls
	me     *self
	accept channels.AcceptFunc
}

// intakeTimeout is how long an update may take. Telegram then brings it again.
const intakeTimeout = 30 * time.Second

// openIntake lets updates in until stop is called, which waits for those that
// are being taken.
func (c *Channel) openIntake(ctx context.Context, me *self, accept channels.AcceptFunc) (stop func()) {
	in := &c.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	in.ctx, in.me, in.accept = ctx, me, accept
	return func() {
		cancel()
		in.mu.Lock()
		defer in.mu.Unlock()
		in.ctx = nil
	}
}

// IsTelegram reports whether a request shows the secret that only Telegram was told.
func (c *Channel) IsTelegram(r *http.Request) bool {
	shown := sha256.Sum256([]byte(r.Header.Get("X-Telegram-Bot-Api-Secret-Token")))
	secret := sha256.Sum256([]byte(c.webhook.secret))
	return c.webhook.url != "" && subtle.ConstantTimeCompare(shown[:], secret[:]) == 1
}

// ServeHTTP takes one update from Telegram: https://core.telegram.org/bots/api#getting-updates.
// It answers 200 once the update is stored, or holds nothing for us; with any
// other status Telegram brings it again. Who does not show the secret gets 401.
func (c *Channel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.IsTelegram(r) {
		http.Error(w, "The secret is missing or wrong.", http.StatusUnauthorized)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "The update can't be read.", http.StatusBadRequest)
		return
	}
	in := &c.intake
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.ctx == nil {
		http.Error(w, "The gateway is not running.", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), intakeTimeout)
	defer cancel()
	stop := context.AfterFunc(in.ctx, cancel)
	defer stop()
	if err := c.takeOne(ctx, in, raw); err != nil {
		c.log.Warn("an update was not stored; Telegram brings it again", "error", err)
		http.Error(w, "The update was not stored.", http.StatusInternalServerError)
	}
}

// takeOne returns nil when Telegram may forget the update.
func (c *Channel) takeOne(ctx context.Context, in *intake, raw json.RawMessage) error {
	if !json.Valid(raw) {
		// It came whole and with the secret, so it will come the same each time.
		c.log.Error("an update can't be read, skipping it", "update", string(raw[:min(len(raw), maxHead)]))
		return nil
	}
	select {
	case <-in.me.known:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	inbound, ok, err := c.forUs(ctx, in.me, c.decode(raw))
	if err != nil || !ok {
		return err
	}
	return in.accept(ctx, nil, inbound)
}
