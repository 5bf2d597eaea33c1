package discord

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/channels"
	"parley/channels/discord/discordtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/internal/clock"
)

// newImpatientGateway returns a gateway that checks again at once whether Discord accepts the bot.
func newImpatientGateway(t *testing.T, c discordtest.Config) *gateway {
	g := newGatewayWith(t, c)
	g.probes = channels.Probes{First: time.Millisecond, Most: 4 * time.Millisecond}
	return g
}

// awaitStates waits until health has had these states in this order.
func (g *gateway) awaitStates(states ...string) {
	g.t.Helper()
	g.until(strings.Join(states, ", "), func() bool {
		want := states
		for _, state := range g.states {
			if len(want) > 0 && state == want[0] {
				want = want[1:]
			}
		}
		return len(want) == 0
	})
}

// checkLoggedOnce checks that the refusal was logged once, and that health says these words.
func (g *gateway) checkLoggedOnce(words ...string) {
	g.t.Helper()
	if n := g.log.count("level=ERROR"); n != 1 {
		g.t.Errorf("%d errors in the log, want one", n)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	detail := g.details[slices.Index(g.states, bots.Rejected)]
	for _, want := range append(words, "asks again by itself", "restart") {
		if !strings.Contains(detail, want) {
			g.t.Errorf("the operator is not told of %q: %s", want, detail)
		}
	}
	if strings.Contains(detail, g.cfg.Token) || g.log.count(g.cfg.Token) > 0 {
		g.t.Error("health contains the token")
	}
}

// After each way in which Discord may refuse a connected bot, messages from the meantime arrive.
func TestRefusedBotIsTriedAgainUntilDiscordTakesIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refuse func(s *discordtest.Server)
		words  []string
	}{
		"at the gateway": {func(s *discordtest.Server) {
			s.CloseNext(discordtest.AuthFailed, 3)
			s.CloseConnections(discordtest.AuthFailed)
		}, []string{"rejected the bot token; check it (config.toml:12)"}},
		"at the API": {func(s *discordtest.Server) {
			s.Fail("GET /gateway/bot", discordtest.Unauthorized, 3)
			s.CloseNext(discordtest.AuthFailed, 1)
			s.CloseConnections(discordtest.AuthFailed)
		}, []string{"rejected the bot token; check it (config.toml:12)"}},
		"for its intents": {func(s *discordtest.Server) {
			s.CloseNext(discordtest.DisallowedIntents, 2)
			s.CloseConnections(discordtest.DisallowedIntents)
		}, []string{"Message Content Intent", "page Bot"}},
		"for its shard": {func(s *discordtest.Server) {
			s.CloseNext(discordtest.InvalidShard, 2)
			s.CloseConnections(discordtest.InvalidShard)
		}, []string{"shard_id and shard_count in [discord]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newImpatientGateway(t, discordtest.Config{})
			ann := g.srv.Person("Ann")
			dm := g.srv.DM(ann)
			g.run()
			g.srv.Say(dm, ann, "before")
			g.wait(1)
			g.awaitStates(bots.Serving)
			tt.refuse(g.srv)
			g.awaitStates(bots.Serving, bots.Rejected)
			g.srv.Say(dm, ann, "meanwhile")
			g.awaitStates(bots.Rejected, bots.Serving)
			if got := texts(g.wait(2)); got[1] != "meanwhile" {
				t.Errorf("accepted %q", got)
			}
			g.checkLoggedOnce(tt.words...)
		})
	}
}

func TestBotThatIsRefusedFromTheStartIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(s *discordtest.Server){
		"at the gateway": func(s *discordtest.Server) { s.CloseNext(discordtest.AuthFailed, 3) },
		"at the API":     func(s *discordtest.Server) { s.Fail("GET /gateway/bot", discordtest.Unauthorized, 3) },
		"at the address": func(s *discordtest.Server) { s.Fail("GET /gateway", discordtest.Unauthorized, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newImpatientGateway(t, discordtest.Config{})
			fail(g.srv)
			ann := g.srv.Person("Ann")
			dm := g.srv.DM(ann)
			g.run()
			g.awaitStates(bots.Rejected, bots.Serving)
			g.srv.Say(dm, ann, "hello")
			g.wait(1)
			g.checkLoggedOnce("config.toml:12")
		})
	}
}

// With an invalid token, or that of a bot that may not read messages, Run goes on, and ends at once with
// its context.
func TestRefusedRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]discordtest.Config{"token": {}, "intents": {WithoutMessageContent: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGatewayWith(t, c)
			if name == "token" {
				g.cfg.Token = "OTAwMDAwMDAwMDAwMDAwMDAx.wrong.token"
			}
			r := g.start(g.channel())
			g.awaitStates(bots.Rejected)
			must(t, r.stop())
		})
	}
}

// While the API rejects the token of a connected bot, messages are still accepted, and replies wait. They
// are sent when the token is accepted again.
func TestReplyRefusedForTheTokenWaitsUntilItIsTaken(t *testing.T) {
	t.Parallel()
	g := newImpatientGateway(t, discordtest.Config{})
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	r := g.run()
	g.awaitStates(bots.Serving)
	g.srv.Say(dm, ann, "hi")
	in := g.wait(1)[0]
	g.srv.Fail("GET /users/@me", discordtest.Unauthorized, 10)
	g.srv.Fail("POST /channels/{channel}/messages", discordtest.Unauthorized, 1)
	d := conversation.Delivery{Key: in.Key, Address: in.Address, Text: "hello"}
	for {
		err := r.deliver(deadline(t), d)
		if err == nil {
			break
		}
		var refused *channels.SendError
		var stuck *channels.StuckError
		if !errors.As(err, &refused) || refused.Permanent || errors.As(err, &stuck) {
			t.Fatalf("the reply is at fault: %v", err)
		}
		must(t, clock.Sleep(t.Context(), time.Millisecond))
	}
	g.awaitStates(bots.Serving, bots.Rejected, bots.Serving)
	g.checkLoggedOnce("config.toml:12")
	if n := g.srv.Calls("POST /channels/{channel}/messages"); n != 2 {
		t.Errorf("%d tries, want the one that was refused and the one that was taken", n)
	}
	g.srv.Say(dm, ann, "still there?")
	g.wait(2)
}

// An interaction has a token of its own, which may have expired.
func TestRefusedInteractionDoesNotQuestionTheBotToken(t *testing.T) {
	t.Parallel()
	g := newImpatientGateway(t, discordtest.Config{})
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	r := g.runWithCommands()
	g.slash(dm, ann, "new")
	in := g.wait(1)[0]
	g.srv.Fail("PATCH /webhooks/{application}/{token}/messages/{message}", discordtest.InvalidWebhookToken, 1)
	r.reply(t, in, "done")
	if n := g.srv.Calls("GET /users/@me"); n != 0 {
		t.Errorf("the bot token was looked at %d times", n)
	}
}
