package discord

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels"
	"parley/channels/access"
	"parley/channels/discord/discordtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// gateway is the surroundings of the adapter in the tests: a Discord server and a store.
type gateway struct {
	t     *testing.T
	srv   *discordtest.Server
	store *conversation.Store
	cfg   Config
	tune  func(*Channel) // shortens the adapter's waits; may be nil
	paced bool           // the server enforces Discord's pace of new sessions, and the adapter keeps to it

	mu       sync.Mutex
	changed  chan struct{} // closed at every change
	accepted []conversation.Inbound
	told     []conversation.Key // sessions with an edited or deleted message
	states   []string           // of health
	details  []string           // of the states
	probes   channels.Probes
	log      logged
	refuse   error // returned by accept
}

func newGateway(t *testing.T) *gateway { return newGatewayWith(t, discordtest.Config{}) }

func newGatewayWith(t *testing.T, c discordtest.Config) *gateway {
	t.Helper()
	srv := discordtest.NewWith(t, c)
	store := storetest.New(t)
	t.Cleanup(func() { must(t, store.Close()) })
	g := &gateway{t: t, srv: srv, store: store, cfg: DefaultConfig(), changed: make(chan struct{}), paced: c.MaxConcurrency > 0}
	g.cfg.Token, g.cfg.APIURL, g.cfg.Access = discordtest.Token, srv.URL, access.Open
	t.Cleanup(func() {
		if v := srv.Violations(); len(v) > 0 {
			t.Errorf("Discord would refuse as malformed: %q", v)
		}
	})
	return g
}

// commands are the commands that the tests register.
var commands = []channels.Command{
	{Name: "new", Description: "Begin anew", Options: []channels.Option{{Name: "title", Description: "its title"}}},
	{Name: "history", Description: "Show the last turns", Private: true, Options: []channels.Option{
		{Name: "which", Description: "another conversation"},
		{Name: "count", Description: "how many", Number: true, Default: "5"},
		{Name: "skip", Description: "how many newer ones to leave out", Number: true},
	}},
	{Name: "status", Description: "Show the state", Private: true},
	{Name: "state", Description: "Show or correct the notes", Private: true, Options: []channels.Option{
		{Name: "change", Description: "what to do", Choices: []string{"add rule", "strike"}},
		{Name: "what", Description: "the rule, or its number"},
	}},
}

// channel makes an adapter as a process does at its start.
func (g *gateway) channel() *Channel {
	g.t.Helper()
	c, err := New(Deps{Config: g.cfg, SetAt: "config.toml:12", Store: testStore{g.store, g}, Previews: g.store, Groups: bots.New(g.store), Pairings: pairing.New(g.store), Commands: commands, Log: slog.New(slog.NewTextHandler(testLog{g.t, &g.log}, nil)),
		Health: func(state, detail string) {
			g.note(func() { g.states, g.details = append(g.states, state), append(g.details, detail) })
		}, Probes: g.probes})
	must(g.t, err)
	c.previewEvery = time.Millisecond
	if !g.paced {
		c.identifyPause = time.Second
	}
	if g.tune != nil {
		g.tune(c)
	}
	return c
}

// testLog writes the adapter's log to the log of the running test, and keeps it.
type testLog struct {
	t    *testing.T
	kept *logged
}

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(string(b))
	l.kept.mu.Lock()
	defer l.kept.mu.Unlock()
	return l.kept.text.Write(b)
}

// logged holds what the adapter has logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

// count returns how often a text was logged.
func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// testStore reports edits and deletions to the test, as package gateway does to the router.
type testStore struct {
	*conversation.Store
	g *gateway
}

func (s testStore) Edit(ctx context.Context, of conversation.Account, id, text string, at time.Time) error {
	key, err := s.Store.Edit(ctx, of, id, text, at)
	s.g.note(func() { s.g.told = append(s.g.told, key) })
	return err
}

func (s testStore) Withdraw(ctx context.Context, of conversation.Account, id string) error {
	key, err := s.Store.Withdraw(ctx, of, id)
	s.g.note(func() { s.g.told = append(s.g.told, key) })
	return err
}

// running is a started adapter.
type running struct {
	*Channel
	stop func() error // ends it and waits
}

// run starts an adapter and waits until it is connected.
func (g *gateway) run() running {
	g.t.Helper()
	r := g.start(g.channel())
	must(g.t, g.srv.WaitConnected(deadline(g.t), 1))
	return r
}

func (g *gateway) start(c *Channel) running {
	ctx, cancel := context.WithCancel(g.t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, g.accept) }()
	stop := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(waittest.Patience):
			g.t.Error("the adapter does not end")
			return errors.New("the adapter does not end")
		}
	})
	g.t.Cleanup(func() { _ = stop() })
	return running{c, stop}
}

func (g *gateway) accept(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error {
	g.mu.Lock()
	refused := g.refuse
	g.mu.Unlock()
	if refused != nil {
		return refused
	}
	stored, err := g.store.Accept(ctx, cursors, batch...)
	g.note(func() { g.accepted = append(g.accepted, stored...) })
	return err
}

func (g *gateway) note(what func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what()
	close(g.changed)
	g.changed = make(chan struct{})
}

// awaits waits until done returns true, and reports whether it did. It calls done with the lock held
// after every change, and gives up when nothing has changed for a while: a slow machine has all the
// time that it needs.
func (g *gateway) awaits(done func() bool) bool {
	for {
		g.mu.Lock()
		ok, changed := done(), g.changed
		g.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-time.After(waittest.Patience):
			return false
		}
	}
}

// until fails the test if awaits gives up.
func (g *gateway) until(what string, done func() bool) {
	g.t.Helper()
	if g.awaits(done) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.t.Fatalf("waited in vain for %s; accepted %q, health %q", what, texts(g.accepted), g.states)
}

// wait waits for n inbound messages and returns them.
func (g *gateway) wait(n int) []conversation.Inbound {
	g.t.Helper()
	g.until("messages", func() bool { return len(g.accepted) >= n })
	got := g.inbounds()
	if len(got) != n {
		g.t.Fatalf("%d messages accepted, want %d: %q", len(got), n, texts(got))
	}
	return got
}

func (g *gateway) inbounds() []conversation.Inbound {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.accepted)
}

func texts(list []conversation.Inbound) []string {
	var all []string
	for _, in := range list {
		all = append(all, in.Text)
	}
	return all
}

// reply sends a text to the place of an inbound message.
func (r running) reply(t *testing.T, to conversation.Inbound, text string, actions ...conversation.Action) {
	t.Helper()
	r.replyOf(t, to, to, text, actions...)
}

// replyOf sends the text of the run that begins with a message to the place of another one.
func (r running) replyOf(t *testing.T, first, to conversation.Inbound, text string, actions ...conversation.Action) {
	t.Helper()
	must(t, r.deliver(deadline(t), conversation.Delivery{Key: to.Key, RunID: first.ID, Address: to.Address, Text: text, Actions: actions}))
}

func (r running) deliver(ctx context.Context, d conversation.Delivery) (err error) {
	if d.Preview, err = r.Previews.Preview(ctx, d.RunID); err != nil {
		return err
	}
	for _, p := range r.Split(d)[len(d.Sent):] {
		id, err := r.Send(ctx, d, p)
		if err != nil {
			return err
		}
		d.Sent = append(d.Sent, id)
	}
	return nil
}

// deadline bounds the waits of a test that would otherwise hang.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cursorsAt returns the cursor of a place that an earlier process has stored.
func cursorsAt(place discordtest.Channel, message string) []conversation.Cursor {
	return []conversation.Cursor{{Name: "discord:" + discordtest.Bot.ID + ":" + place.ID, Value: message}}
}
