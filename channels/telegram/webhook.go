package telegram

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/internal/clock"
)

// WebhookPath is where Telegram hands its updates to the gateway, behind webhook_url.
const WebhookPath = "/hooks/telegram"

// watchEvery is how often the state of the webhook is requested: often enough to tell an outage of
// Telegram from a message that Telegram refuses.
const watchEvery = time.Minute

// webhook is the configuration of a webhook:
// https://core.telegram.org/bots/api#setwebhook
type webhook struct {
	url    string // "" = the channel polls
	secret string // the token that Telegram sends with every update
}

func newWebhook(c Config) webhook {
	if c.WebhookURL == "" {
		return webhook{}
	}
	return webhook{
		url:    strings.TrimRight(c.WebhookURL, "/") + WebhookPath,
		secret: cmp.Or(c.WebhookSecret, derivedSecret(c.Token)),
	}
}

// derivedSecret returns a webhook secret that is derived from the bot token and does not reveal it.
func derivedSecret(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("parley telegram webhook"))
	return hex.EncodeToString(mac.Sum(nil))
}

// keepWebhook has Telegram deliver updates until ctx ends. The webhook stays set:
// what is written meanwhile waits at Telegram.
func (c *Channel) keepWebhook(ctx context.Context) error {
	if err := c.persist(ctx, c.setWebhook); err != nil {
		return err
	}
	c.log.Info("webhook set", "webhook_at", host(c.webhook.url))
	told := time.Now().Unix() // failures from before the start are not logged
	for {
		if err := c.persist(ctx, func(ctx context.Context) error { return c.watch(ctx, &told) }); err != nil {
			return err
		}
		if err := clock.Sleep(ctx, watchEvery); err != nil {
			return err
		}
	}
}

// persist makes a call until Telegram answers it. It returns an error when ctx
// ends.
func (c *Channel) persist(ctx context.Context, call func(context.Context) error) error {
	retry := channels.NewRetry(c.log)
	for {
		err := call(ctx)
		if err == nil {
			c.answered()
			retry.Succeeded("Telegram answers again")
			return nil
		}
		if ctx.Err() == nil && !isRejection(err) {
			c.health.down(err)
		}
		if err := c.waitAfter(ctx, retry, err); err != nil {
			return err
		}
	}
}

func (c *Channel) setWebhook(ctx context.Context) error {
	return c.api.call(ctx, requestTimeout, "setWebhook", tgbotapi.Params{
		"url": c.webhook.url, "secret_token": c.webhook.secret, "allowed_updates": allowedUpdates,
	}, nil)
}

// webhookInfo is https://core.telegram.org/bots/api#webhookinfo
type webhookInfo struct {
	URL          string `json:"url"`
	Pending      int    `json:"pending_update_count"`
	LastErrorAt  int64  `json:"last_error_date"` // Unix time, 0 when there was none
	LastErrorSay string `json:"last_error_message"`
}

// watch checks whether Telegram can deliver its updates. told is the time of the last error
// that was logged.
func (c *Channel) watch(ctx context.Context, told *int64) error {
	var info webhookInfo
	if err := c.api.call(ctx, requestTimeout, "getWebhookInfo", nil, &info); err != nil {
		return err
	}
	if info.URL != c.webhook.url {
		c.log.Warn("webhook replaced by another program, setting it again", "found_at", host(info.URL))
		return c.setWebhook(ctx)
	}
	if info.LastErrorAt > *told {
		*told = info.LastErrorAt
		c.log.Warn("webhook delivery failed, Telegram tries again: check webhook_url in [telegram], and the proxy in front of the gateway",
			"webhook_at", host(info.URL), "error", info.LastErrorSay, "at", time.Unix(info.LastErrorAt, 0), "pending", info.Pending)
	}
	return nil
}

// host returns what a log may show of a webhook's address: many programs keep the
// bot's token in its path.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// leaveWebhook removes a webhook that a gateway has set before it was configured
// to poll, and reports whether it did. It leaves a webhook of another program
// alone.
func (c *Channel) leaveWebhook(ctx context.Context) bool {
	var info webhookInfo
	err := c.api.call(ctx, requestTimeout, "getWebhookInfo", nil, &info)
	if u, parseErr := url.Parse(info.URL); err != nil || parseErr != nil || !strings.HasSuffix(u.Path, WebhookPath) {
		return false
	}
	if err := c.api.call(ctx, requestTimeout, "deleteWebhook", nil, nil); err != nil {
		return false
	}
	c.log.Info("webhook of an earlier start removed, since webhook_url is no longer set", "webhook_at", host(info.URL))
	return true
}

// intake is what requests of the webhook need while Run runs.
type intake struct {
	mu     sync.RWMutex    // held for reading while an update is taken
	ctx    context.Context // ends when Run is about to; nil while Run does not run, or polls
	me     *self
	accept channels.AcceptFunc
}

// intakeTimeout is how long an update may take. After that Telegram delivers it
// again.
const intakeTimeout = 30 * time.Second

// openIntake takes updates until stop is called, which waits for those under way.
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

// IsTelegram reports whether a request has the secret that only Telegram knows.
func (c *Channel) IsTelegram(r *http.Request) bool {
	shown := sha256.Sum256([]byte(r.Header.Get("X-Telegram-Bot-Api-Secret-Token")))
	secret := sha256.Sum256([]byte(c.webhook.secret))
	return c.webhook.url != "" && subtle.ConstantTimeCompare(shown[:], secret[:]) == 1
}

// ServeHTTP takes one update from Telegram:
// https://core.telegram.org/bots/api#getting-updates
// It answers 200 once the update is stored, or holds nothing for the assistant.
// With any other status Telegram delivers it again. A request without the secret
// gets 401.
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
		c.log.Warn("update not stored, Telegram delivers it again", "error", err)
		http.Error(w, "The update was not stored.", http.StatusInternalServerError)
	}
}

// takeOne returns nil when Telegram may forget the update.
func (c *Channel) takeOne(ctx context.Context, in *intake, raw json.RawMessage) error {
	if !json.Valid(raw) {
		// It came whole and with the secret, so it will come the same each time.
		c.log.Error("update not readable, skipping it", "update", string(raw[:min(len(raw), maxHead)]))
		return nil
	}
	select {
	case <-in.me.known:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	list, err := c.handle(ctx, in.me, c.decode(raw))
	if err != nil || len(list) == 0 {
		return err
	}
	return in.accept(ctx, nil, list...)
}
