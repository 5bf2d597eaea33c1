package discord

import (
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/channels/discord/discordtest"
	"parley/conversation/bots"
	"parley/conversation/pairing"
	"parley/internal/waittest"
)

// A message arrives after each way of losing the connection.
func TestLostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(s *discordtest.Server){
		"cut":                     (*discordtest.Server).DropConnections,
		"asked to reconnect":      (*discordtest.Server).AskReconnect,
		"turned away":             func(s *discordtest.Server) { s.SpeakNext(discordtest.Reconnect); s.DropConnections() },
		"unreadable":              func(s *discordtest.Server) { s.Speak("{") },
		"unreadable at the door":  func(s *discordtest.Server) { s.SpeakNext("{"); s.DropConnections() },
		"session invalid":         func(s *discordtest.Server) { s.InvalidateSessions(false) },
		"session to be resumed":   func(s *discordtest.Server) { s.InvalidateSessions(true) },
		"closed":                  func(s *discordtest.Server) { s.CloseConnections(discordtest.UnknownError) },
		"closed for a number":     func(s *discordtest.Server) { s.CloseConnections(discordtest.InvalidSeq) },
		"session forgotten":       func(s *discordtest.Server) { s.ForgetSessions(); s.DropConnections() },
		"closed when coming back": func(s *discordtest.Server) { s.CloseNext(discordtest.UnknownError, 1); s.DropConnections() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			g.tune = func(c *Channel) { c.openTime = 5 * time.Second }
			ann := g.srv.Person("Ann")
			dm := g.srv.DM(ann)
			g.run()
			g.srv.Say(dm, ann, "before")
			g.wait(1)
			lose(g.srv)
			g.srv.Say(dm, ann, "meanwhile")
			g.wait(2)
			g.srv.Say(dm, ann, "after")
			if got := g.wait(3); got[1].Text != "meanwhile" || got[2].Text != "after" {
				t.Errorf("%q", texts(got))
			}
		})
	}
}

// Discord may also end a session with a close code when the bot resumes it.
func TestSessionThatCannotResumeBeginsAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it waits for the library to connect again")
	}
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.run()
	g.srv.Say(dm, ann, "before")
	g.wait(1)
	g.srv.CloseResumes(discordtest.InvalidSeq)
	g.srv.DropConnections()
	g.srv.Say(dm, ann, "after")
	g.wait(2)
}

// The library hangs when Discord refuses the bot while it connects. The gateway must still
// end, before it notices that and after.
func TestChannelCanBeStoppedWhileDiscordRefusesTheBot(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"at once": time.Hour, "later": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			g.tune = func(c *Channel) { c.openTime = limit }
			g.srv.SpeakNext(discordtest.Reconnect)
			r := g.run()
			if limit < time.Hour {
				g.until("the trouble", func() bool { return slices.Contains(g.states, bots.Interrupted) })
			}
			must(t, r.stop())
			must(t, g.srv.WaitDisconnected(deadline(t)))
		})
	}
}

// When Discord rejects a session, the library begins a new one at once. The next one must not begin
// before Discord's pace allows it, or it is rejected, too.
func TestNewSessionsKeepDiscordsPace(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it keeps Discord's pace")
	}
	t.Parallel()
	var ahead atomic.Int64
	g := newGatewayWith(t, discordtest.Config{MaxConcurrency: 1, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.run()
	g.srv.Say(dm, ann, "before")
	g.wait(1)
	ahead.Add(int64(5 * time.Second)) // one more session may begin, and not two
	g.srv.ForgetSessions()
	g.srv.DropConnections()
	g.srv.Say(dm, ann, "after")
	g.wait(2)
}

// A connection can fall silent without being closed, as when the network loses its packets. It is
// replaced, and its session resumed, so that no command is lost.
func TestAConnectionThatFallsSilentIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it waits for heartbeats")
	}
	t.Parallel()
	g := newGateway(t)
	g.tune = func(c *Channel) { c.silence = 2 * time.Second }
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.run()
	g.srv.Say(dm, ann, "before")
	g.wait(1)
	must(t, g.srv.Wait(deadline(t), "the session to be resumed", func() bool { return g.srv.Counts().Resumes > 0 }))
	g.srv.Say(dm, ann, "after")
	g.wait(2)
}

// The gateway closes its connection when it stops: otherwise Discord would show the bot
// as online for minutes.
func TestStoppingClosesTheConnection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	g.awaitStates(bots.Serving)
	must(t, r.stop())
	must(t, g.srv.WaitDisconnected(deadline(t)))
	if n := g.srv.Sessions(); n != 0 {
		t.Errorf("%d sessions are kept to be resumed", n)
	}
}

func TestHealthFollowsTheConnection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run()
	g.awaitStates(bots.Connecting, bots.Serving)
	g.srv.DropConnections()
	g.awaitStates(bots.Connecting, bots.Serving, bots.Interrupted, bots.Serving)
}

// Health says from the start on that Discord can't be reached, without the page that a proxy sends.
func TestHealthSaysWhyThereIsNoConnectionYet(t *testing.T) {
	t.Parallel()
	for _, route := range []string{"GET /gateway", "GET /gateway/bot"} {
		t.Run(route, func(t *testing.T) {
			g := newGateway(t)
			page := discordtest.BadGateway()
			page.Body = "<html>" + strings.Repeat("a proxy's page ", 1000) + "</html>"
			g.srv.Fail(route, page, 8)
			told := make(chan string, 100)
			c, err := New(Deps{Config: g.cfg, Store: testStore{g.store, g}, Pairings: pairing.New(g.store), Log: slog.New(slog.NewTextHandler(testLog{t, &g.log}, nil)),
				Health: func(state, detail string) { told <- state + ": " + detail }})
			must(t, err)
			g.start(c)
			if first := waittest.Receive(t, told, "the first state"); first != bots.Connecting+": " {
				t.Error(first)
			}
			second := waittest.Receive(t, told, "the second state")
			if !strings.Contains(second, "502") || !strings.HasPrefix(second, bots.Interrupted) || len(second) > 2*maxErrorText {
				t.Errorf("%d bytes: %.200s", len(second), second)
			}
		})
	}
}

func TestServersAreSpreadOverShards(t *testing.T) {
	t.Parallel()
	g := newGatewayWith(t, discordtest.Config{Shards: 2, MaxConcurrency: 2})
	ann := g.srv.Person("Ann")
	one, two := g.srv.Channel(g.srv.Guild("One"), "general"), g.srv.Channel(g.srv.Guild("Two"), "general")
	g.start(g.channel())
	must(t, g.srv.WaitConnected(deadline(t), 2))
	g.srv.Say(one, ann, discordtest.Bot.Mention()+" one")
	g.srv.Say(two, ann, discordtest.Bot.Mention()+" two")
	g.srv.Say(g.srv.DM(ann), ann, "alone")
	g.wait(3)
}

func TestAProcessMayServeOneShard(t *testing.T) {
	t.Parallel()
	g := newGatewayWith(t, discordtest.Config{Shards: 2})
	g.cfg.ShardID, g.cfg.ShardCount = 1, 2
	ann := g.srv.Person("Ann")
	places := []discordtest.Channel{g.srv.Channel(g.srv.Guild("One"), "general"), g.srv.Channel(g.srv.Guild("Two"), "general")}
	var mine, theirs discordtest.Channel
	for _, p := range places {
		if (&place{guild: p.Guild}).shard(2) == 1 {
			mine = p
		} else {
			theirs = p
		}
	}
	must(t, g.accept(t.Context(), append(cursorsAt(mine, "1"), cursorsAt(theirs, "1")...)))
	g.srv.Say(theirs, ann, discordtest.Bot.Mention()+" away, theirs")
	g.srv.Say(mine, ann, discordtest.Bot.Mention()+" away, mine")
	g.run()
	g.srv.Say(theirs, ann, discordtest.Bot.Mention()+" theirs")
	g.srv.Say(mine, ann, discordtest.Bot.Mention()+" mine")
	if got := g.wait(2); got[0].Text != "away, mine" || got[1].Text != "mine" {
		t.Errorf("%q", texts(got))
	}
}

func TestChannelConnectsWhenDiscordIsBack(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.Fail("GET /gateway/bot", discordtest.BadGateway(), 1)
	g.srv.Fail("GET /gateway", discordtest.Drop(), 1)
	ann := g.srv.Person("Ann")
	g.run()
	g.srv.Say(g.srv.DM(ann), ann, "hi")
	g.wait(1)
}
