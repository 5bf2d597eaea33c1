package telegram_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/channels"
	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/internal/clock"
)

// rejecting is a gateway that asks again at once whether its token is taken.
func rejecting(t *testing.T) *gateway {
	g := newGateway(t)
	g.probes = channels.Probes{First: time.Millisecond, Most: 4 * time.Millisecond}
	return g
}

var (
	revoked = telegramtest.Verdict{Code: 401}
	unknown = telegramtest.Verdict{Code: 404}
)

// fared reports whether the states so far hold these, in this order.
func (g *gateway) fared(states ...string) bool {
	for _, state := range g.states {
		if len(states) > 0 && state == states[0] {
			states = states[1:]
		}
	}
	return len(states) == 0
}

// checkWords looks at what the operator was told of a rejected token, once.
func (g *gateway) checkWords() {
	g.t.Helper()
	if n := g.logged("level=ERROR"); n != 1 {
		g.t.Errorf("%d errors in the log, want one:\n%s", n, &g.log)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	words := g.details[slices.Index(g.states, bots.Rejected)]
	for _, want := range []string{"Telegram rejects the bot token", "(config.toml:12)", "@BotFather", "restart"} {
		if !strings.Contains(words, want) {
			g.t.Errorf("the operator is not told of %q: %s", want, words)
		}
	}
	if strings.Contains(words+g.log.String(), "not-a-secret") {
		g.t.Error("the token is told")
	}
}

func TestRejectedTokenIsProbedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]telegramtest.Verdict{"revoked": revoked, "unknown": unknown} {
		t.Run(name, func(t *testing.T) {
			g := rejecting(t)
			g.run(g.channel())
			g.until(func() bool { return g.fared(bots.Serving) })
			g.srv.Fail("getMe", verdict, 5)
			g.srv.Fail("getUpdates", verdict, 1)
			g.srv.Say(telegramtest.Private(ada), ada, "before") // ends the poll under way
			g.until(func() bool { return g.fared(bots.Serving, bots.Rejected) })
			g.srv.Say(telegramtest.Private(ada), ada, "meanwhile")
			g.wait(2)
			g.until(func() bool { return g.fared(bots.Rejected, bots.Serving) })
			g.checkWords()
		})
	}
}

// The token was never right, and then the server knows it after all.
func TestTokenThatIsRejectedFromTheStartIsProbed(t *testing.T) {
	t.Parallel()
	g := rejecting(t)
	g.srv.Fail("getMe", unknown, 4)
	g.srv.Fail("getUpdates", unknown, 1)
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.run(g.channel())
	g.wait(1)
	g.until(func() bool { return g.fared(bots.Rejected, bots.Serving) })
	g.checkWords()
}

func TestRunWithARejectedTokenEndsAtOnceWithItsContext(t *testing.T) {
	t.Parallel()
	g := newGateway(t) // which asks again after half a minute
	stop := g.run(g.channel(func(c *telegram.Config) { c.Token = "7000001:another-token-not-a-secret" }))
	g.until(func() bool { return g.fared(bots.Rejected) })
	must(t, stop())
}

func TestWebhookWithARejectedTokenIsSetOnceItIsTaken(t *testing.T) {
	t.Parallel()
	g := rejecting(t)
	g.srv.Fail("getMe", revoked, 3)
	g.srv.Fail("setWebhook", revoked, 1)
	g.run(g.hooked())
	g.until(func() bool { return g.fared(bots.Rejected, bots.Serving) })
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.wait(1)
	g.checkWords()
}

// A message meets the 401 first. It is not sent while the token is rejected, fails
// for no fault of its own, and arrives afterwards.
func TestMessageRefusedForTheTokenWaitsUntilItIsTaken(t *testing.T) {
	t.Parallel()
	g := rejecting(t)
	c := g.channel()
	g.run(c)
	g.until(func() bool { return g.fared(bots.Serving) })
	g.srv.AddChat(telegramtest.Private(ada))
	g.srv.Fail("getMe", revoked, 20)
	g.srv.Fail("sendMessage", revoked, 1)
	waits := channels.Probes{First: time.Millisecond, Most: time.Millisecond}.BackOff()
	for {
		_, err := c.Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`}, partOf("hello"))
		if err == nil {
			break
		}
		var refused *channels.SendError
		var stuck *channels.StuckError
		if !errors.As(err, &refused) || refused.Permanent || errors.As(err, &stuck) {
			t.Fatalf("the message is at fault: %v", err)
		}
		must(t, clock.Sleep(context.Background(), waits.NextBackOff()))
	}
	g.until(func() bool { return g.fared(bots.Rejected, bots.Serving) })
	if sent := g.srv.Sent(); len(sent) != 1 {
		t.Errorf("%d messages", len(sent))
	}
	if n := g.srv.Calls("sendMessage"); n != 2 {
		t.Errorf("%d tries, want the one that was refused and the one that was taken", n)
	}
}

// Where Telegram asks to leave a chat alone for long, a message to it does not wait
// inside of Send, which the end of the gateway would wait for.
func TestMessageToABlockedChatIsPutOff(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	g.srv.AddChat(telegramtest.Private(ada))
	g.srv.Refuse(ada.ID, telegramtest.TooMany(3600), 1)
	for range 2 {
		_, err := c.Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`}, partOf("hello"))
		var refused *channels.SendError
		if !errors.As(err, &refused) || refused.RetryAfter < 59*time.Minute {
			t.Fatalf("got %v", err)
		}
	}
}
