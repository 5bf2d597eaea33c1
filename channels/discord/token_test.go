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

// rejecting is a gateway that asks again at once whether Discord takes the bot.
func rejecting(t *testing.T, c discordtest.Config) *gateway {
	g := newGatewayWith(t, c)
	g.probes = channels.Probes{First: time.Millisecond, Most: 4 * time.Millisecond}
	return g
}

// fared waits until the states hold these, in this order.
func (g *gateway) fared(states ...string) {
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

// checkWords looks at what the operator was told of the refusal, once.
func (g *gateway) checkWords(words ...string) {
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
		g.t.Error("the token is told")
	}
}

// Each way in which Discord refuses a bot that it has known, and then a message of
// the time meanwhile, which must arrive.
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
			g := rejecting(t, discordtest.Config{})
			ann := g.srv.Person("Ann")
			dm := g.srv.DM(ann)
			g.run()
			g.srv.Say(dm, ann, "before")
			g.wait(1)
			g.fared(bots.Serving)
			tt.refuse(g.srv)
			g.fared(bots.Serving, bots.Rejected)
			g.srv.Say(dm, ann, "meanwhile")
			g.fared(bots.Rejected, bots.Serving)
			if got := texts(g.wait(2)); got[1] != "meanwhile" {
				t.Errorf("accepted %q", got)
			}
			g.checkWords(tt.words...)
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
			g := rejecting(t, discordtest.Config{})
			fail(g.srv)
			ann := g.srv.Person("Ann")
			dm := g.srv.DM(ann)
			g.run()
			g.fared(bots.Rejected, bots.Serving)
			g.srv.Say(dm, ann, "hello")
			g.wait(1)
			g.checkWords("config.toml:12")
		})
	}
}

// A token that never was one, and one of a bot that may not read messages: Run goes
// on, and ends at once with its context.
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
			g.fared(bots.Rejected)
			must(t, r.stop())
		})
	}
}

// The API rejects the token while the connection stands. Messages are still taken
// in, replies wait and fail for no fault of their own, and go out afterwards.
func TestReplyRefusedForTheTokenWaitsUntilItIsTaken(t *testing.T) {
	t.Parallel()
	g := rejecting(t, discordtest.Config{})
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	r := g.run()
	g.fared(bots.Serving)
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
	g.fared(bots.Serving, bots.Rejected, bots.Serving)
	g.checkWords("config.toml:12")
	if n := g.srv.Calls("POST /channels/{channel}/messages"); n != 2 {
		t.Errorf("%d tries, want the one that was refused and the one that was taken", n)
	}
	g.srv.Say(dm, ann, "still there?")
	g.wait(2)
}

// An interaction has a token of its own, which may be over.
func TestRefusedInteractionIsNoDoubtOfTheBotToken(t *testing.T) {
	t.Parallel()
	g := rejecting(t, discordtest.Config{})
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
