package telegram_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation/bots"
	"parley/conversation/pairing"
)

// webhookChannel returns an adapter with a webhook, and serves the webhook.
func (g *gateway) webhookChannel(changes ...func(*telegram.Config)) *telegram.Channel {
	g.t.Helper()
	var c *telegram.Channel
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	g.t.Cleanup(srv.Close)
	c = g.channel(append(changes, func(cfg *telegram.Config) { cfg.WebhookURL = srv.URL + "/" })...)
	mux.Handle("POST "+telegram.WebhookPath, c)
	return c
}

func TestWebhookTakesMessages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.webhookChannel())
	private := telegramtest.Private(ada)
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint("message ", i))
		g.srv.Say(private, ada, want[i])
	}
	g.srv.Say(group, ada, "not for the bot")
	g.srv.Say(group, ada, "@parley_bot for the bot")
	if diff := cmp.Diff(append(want, "for the bot"), texts(g.wait(21))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if g.srv.Calls("getUpdates") != 0 {
		t.Error("the channel polls as well")
	}
	if got := g.srv.Webhook(); !strings.HasSuffix(got, "/hooks/telegram") || strings.Contains(got, "//hooks") {
		t.Errorf("the webhook is %q", got)
	}
}

// An update is acknowledged only when its message is stored.
func TestUpdatesThatAreNotStoredAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.full = 3
	g.run(g.webhookChannel())
	g.srv.Say(telegramtest.Private(ada), ada, "one")
	g.srv.Say(telegramtest.Private(ada), ada, "two")
	if diff := cmp.Diff([]string{"one", "two"}, texts(g.wait(2))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if g.logged("update not stored") != 3 {
		t.Errorf("the log does not say so:\n%s", g.log.String())
	}
}

// Messages from while the gateway was away wait at Telegram, and are stored once.
func TestMessagesWaitForAGatewayThatIsAway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.webhookChannel()
	stop := g.run(c)
	g.srv.Say(telegramtest.Private(ada), ada, "before")
	g.wait(1)
	must(t, g.srv.WaitConfirmed(deadline(t)))
	must(t, stop())
	if g.srv.Webhook() == "" {
		t.Fatal("the webhook was removed when the gateway ended")
	}
	g.srv.Say(telegramtest.Private(ada), ada, "meanwhile")
	must(t, g.srv.WaitRefused(deadline(t)))
	g.run(c)
	if diff := cmp.Diff([]string{"before", "meanwhile"}, texts(g.wait(2))); diff != "" {
		t.Fatal(diff)
	}
}

// Anybody can reach the address; only Telegram knows the secret.
func TestWebhookTakesMessagesOfTelegramOnly(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{"made from the token": "", "configured": "a-secret_of-our-own"} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			g.run(g.webhookChannel(func(c *telegram.Config) { c.WebhookSecret = secret }))
			must(t, g.srv.WaitWebhook(deadline(t)))
			update := `{"update_id":1,"message":{"message_id":5,"date":1,"text":"forged","chat":{"id":42,"type":"private"},"from":{"id":42,"first_name":"Ada"}}}`
			for _, shown := range []string{"", "x", telegramtest.Token} {
				request, err := http.NewRequest("POST", g.srv.Webhook(), strings.NewReader(update))
				must(t, err)
				request.Header.Set("X-Telegram-Bot-Api-Secret-Token", shown)
				answer, err := http.DefaultClient.Do(request)
				must(t, err)
				answer.Body.Close()
				if answer.StatusCode != http.StatusUnauthorized {
					t.Errorf("the secret %q gets %s", shown, answer.Status)
				}
			}
			g.srv.Say(telegramtest.Private(ada), ada, "real")
			if diff := cmp.Diff([]string{"real"}, texts(g.wait(1))); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// A stranger gets a code after the update was acknowledged, when the request of the
// webhook has ended.
func TestStrangerBehindAWebhookGetsACode(t *testing.T) {
	t.Parallel()
	g, operator := newPairing(t)
	g.run(g.webhookChannel(withPairing))
	private := telegramtest.Private(ada)
	g.srv.Say(private, ada, "hello?")
	code := g.codeTo(ada.ID, 1)
	_, err := pairing.New(operator).Approve(t.Context(), code)
	must(t, err)
	g.srv.Say(private, ada, "and now?")
	if diff := cmp.Diff([]string{"hello?", "and now?"}, texts(g.wait(2))); diff != "" {
		t.Fatal(diff)
	}
}

func TestBrokenUpdateAtTheWebhookIsSkipped(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.webhookChannel())
	g.srv.Push(`{"message":{"text":"broken`)
	g.srv.Push(`{"message":"of another type"}`)
	g.srv.Push(`{"poll":{}}`)
	g.srv.Say(telegramtest.Private(ada), ada, "whole")
	if diff := cmp.Diff([]string{"whole"}, texts(g.wait(1))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
}

// The operator can go back to polling without removing the webhook at Telegram.
func TestPollingRemovesTheGatewaysOwnWebhook(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	stop := g.run(g.webhookChannel())
	g.srv.Say(telegramtest.Private(ada), ada, "brought")
	g.wait(1)
	must(t, stop())
	g.srv.Say(telegramtest.Private(ada), ada, "polled")
	g.run(g.channel())
	if diff := cmp.Diff([]string{"brought", "polled"}, texts(g.wait(2))); diff != "" {
		t.Fatal(diff)
	}
	if g.srv.Webhook() != "" {
		t.Error("the webhook is still set")
	}
}

// A failure to set the webhook shows in health, and is retried.
func TestAWebhookThatCantBeSetIsTriedAgain(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.Fail("setWebhook", telegramtest.BadGateway(), 2)
	g.run(g.webhookChannel())
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.wait(1)
	g.waitLog("Telegram server failed")
	g.until(func() bool { return len(g.states) > 0 && g.states[len(g.states)-1] == bots.Serving })
}

func TestWebhookSettingsThatCantWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*telegram.Config)
		key    string
	}{
		"without TLS":       {func(c *telegram.Config) { c.WebhookURL = "http://chat.example.com" }, "webhook_url"},
		"a long secret":     {func(c *telegram.Config) { c.WebhookSecret = strings.Repeat("x", 257) }, "webhook_secret"},
		"an unusual secret": {func(c *telegram.Config) { c.WebhookSecret = "two words" }, "webhook_secret"},
	} {
		cfg := telegram.DefaultConfig()
		c.change(&cfg)
		var keys []string
		note := func(key, _, _ string) { keys = append(keys, key) }
		cfg.CheckKeys(note)
		cfg.Check(note)
		if diff := cmp.Diff([]string{c.key}, keys); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
