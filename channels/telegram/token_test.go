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

// newImpatientGateway returns a gateway that checks again at once whether its token is accepted.
func newImpatientGateway(t *testing.T) *gateway {
	g := newGateway(t)
	g.probes = channels.Probes{First: time.Millisecond, Most: 4 * time.Millisecond}
	return g
}

var (
	revoked = telegramtest.Verdict{Code: 401}
	unknown = telegramtest.Verdict{Code: 404}
)

// hadStates reports whether health has had these states, in this order.
func (g *gateway) hadStates(states ...string) bool {
	for _, state := range g.states {
		if len(states) > 0 && state == states[0] {
			states = states[1:]
		}
	}
	return len(states) == 0
}

// checkExplanation checks that the rejected token was logged once, with an explanation.
func (g *gateway) checkExplanation() {
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
		g.t.Error("the log or health contains the token")
	}
}

func TestRejectedTokenIsProbedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]telegramtest.Verdict{"revoked": revoked, "unknown": unknown} {
		t.Run(name, func(t *testing.T) {
			g := newImpatientGateway(t)
			g.run(g.channel())
			g.until(func() bool { return g.hadStates(bots.Serving) })
			g.srv.Fail("getMe", verdict, 5)
			g.srv.Fail("getUpdates", verdict, 1)
			g.srv.Say(telegramtest.Private(ada), ada, "before") // ends the poll under way
			g.until(func() bool { return g.hadStates(bots.Serving, bots.Rejected) })
			g.srv.Say(telegramtest.Private(ada), ada, "meanwhile")
			g.wait(2)
			g.until(func() bool { return g.hadStates(bots.Rejected, bots.Serving) })
			g.checkExplanation()
		})
	}
}

// A token that was rejected from the start is accepted later.
func TestTokenThatIsRejectedFromTheStartIsProbed(t *testing.T) {
	t.Parallel()
	g := newImpatientGateway(t)
	g.srv.Fail("getMe", unknown, 4)
	g.srv.Fail("getUpdates", unknown, 1)
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.run(g.channel())
	g.wait(1)
	g.until(func() bool { return g.hadStates(bots.Rejected, bots.Serving) })
	g.checkExplanation()
}

func TestRunWithARejectedTokenEndsAtOnceWithItsContext(t *testing.T) {
	t.Parallel()
	g := newGateway(t) // checks the token again after half a minute
	stop := g.run(g.channel(func(c *telegram.Config) { c.Token = "7000001:another-token-not-a-secret" }))
	g.until(func() bool { return g.hadStates(bots.Rejected) })
	must(t, stop())
}

func TestWebhookWithARejectedTokenIsSetOnceItIsTaken(t *testing.T) {
	t.Parallel()
	g := newImpatientGateway(t)
	g.srv.Fail("getMe", revoked, 3)
	g.srv.Fail("setWebhook", revoked, 1)
	g.run(g.webhookChannel())
	g.until(func() bool { return g.hadStates(bots.Rejected, bots.Serving) })
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.wait(1)
	g.checkExplanation()
}

// A reply that gets a 401 is not counted as failed, and is sent when the token is accepted again.
func TestMessageRefusedForTheTokenWaitsUntilItIsTaken(t *testing.T) {
	t.Parallel()
	g := newImpatientGateway(t)
	c := g.channel()
	g.run(c)
	g.until(func() bool { return g.hadStates(bots.Serving) })
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
	g.until(func() bool { return g.hadStates(bots.Rejected, bots.Serving) })
	if sent := g.srv.Sent(); len(sent) != 1 {
		t.Errorf("%d messages", len(sent))
	}
	if n := g.srv.Calls("sendMessage"); n != 2 {
		t.Errorf("%d tries, want the one that was refused and the one that was taken", n)
	}
}

// When Telegram rate-limits a chat for long, Send returns an error and does not wait, so that a shutdown
// does not wait either.
func TestMessageToARateLimitedChatIsPutOff(t *testing.T) {
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
