package telegram

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
)

// The log says when Telegram can't reach the webhook's address. That is the usual mistake, and people
// only notice that the bot is silent.
func TestWatchSaysWhyNoUpdatesArrive(t *testing.T) {
	t.Parallel()
	srv := telegramtest.New(t)
	var log bytes.Buffer
	cfg := DefaultConfig()
	cfg.Token, cfg.APIURL, cfg.WebhookURL = telegramtest.Token, srv.URL, "http://127.0.0.1:1"
	c, err := New(Deps{Config: cfg, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.setWebhook(t.Context()); err != nil {
		t.Fatal(err)
	}
	ada := telegramtest.User{ID: 42, FirstName: "Ada"}
	srv.Say(telegramtest.Private(ada), ada, "hello")
	if err := srv.WaitRefused(t.Context()); err != nil {
		t.Fatal(err)
	}
	var told int64
	if err := c.watch(t.Context(), &told); err != nil || !strings.Contains(log.String(), "connection refused") {
		t.Errorf("%v; the log says %s", err, log.String())
	}

	srv.SetWebhook("https://another.example/" + telegramtest.Token)
	if err := c.watch(t.Context(), &told); err != nil || srv.Webhook() != c.webhook.url || !strings.Contains(log.String(), "replaced by another program") {
		t.Errorf("%v; the webhook is %q; the log says %s", err, srv.Webhook(), log.String())
	}
	if strings.Contains(log.String(), telegramtest.Token) {
		t.Errorf("the address of another program's webhook, with the token in it, stands in the log: %s", log.String())
	}
}
