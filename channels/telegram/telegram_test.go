package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels"
	"parley/channels/access"
	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/internal/waittest"
)

var (
	ada = telegramtest.User{ID: 42, FirstName: "Ada", LastName: "Lovelace", Username: "ada"}
	bob = telegramtest.User{ID: 43, FirstName: "Bob"}
)

// gateway is the surroundings of the adapter in the tests. It keeps the accepted messages when the
// adapter ends, as a store does.
type gateway struct {
	t   *testing.T
	srv *telegramtest.Server
	log waittest.Buffer

	pairings access.Pairings     // nil in tests without codes and names
	places   telegram.Places     // nil in tests without groups that move
	store    *conversation.Store // also stores the messages; may be nil

	mu       sync.Mutex
	changed  *sync.Cond
	accepted []conversation.Inbound // deduplicated by SourceID
	batches  int
	cursor   conversation.Cursor
	underWay int64 // the run of which messages says that it is under way
	full     int   // number of calls of accept that fail
	states   []string
	edits    []string
	details  []string // of the states
	probes   channels.Probes
}

func (g *gateway) fares(state, detail string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.states, g.details = append(g.states, state), append(g.details, detail)
	g.changed.Broadcast()
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{t: t, srv: telegramtest.New(t)}
	g.changed = sync.NewCond(&g.mu)
	return g
}

func (g *gateway) config() telegram.Config {
	cfg := telegram.DefaultConfig()
	cfg.Token, cfg.APIURL = telegramtest.Token, g.srv.URL
	cfg.Allow, cfg.SendRate, cfg.ChatRate = []string{"*"}, 0, 0
	return cfg
}

// channel returns an adapter with changes to the usual configuration.
func (g *gateway) channel(changes ...func(*telegram.Config)) *telegram.Channel {
	g.t.Helper()
	cfg := g.config()
	for _, change := range changes {
		change(&cfg)
	}
	log := slog.New(slog.NewTextHandler(&g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	commands := []channels.Command{{Name: "new", Description: "begin afresh"}, {Name: "clear", Description: "delete"}, {Name: "status", Description: "tell", Private: true}}
	deps := telegram.Deps{Config: cfg, Cursor: g.readCursor, Pairings: g.pairings, Places: g.places, Commands: commands, Health: g.fares, Probes: g.probes, SetAt: "config.toml:12", Log: log}
	deps.Messages = messages{g}
	if g.store != nil {
		deps.Groups, deps.Previews = bots.New(g.store), g.store
	}
	c, err := telegram.New(deps)
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

func (g *gateway) readCursor(_ context.Context, name string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name != g.cursor.Name {
		return "", nil
	}
	return g.cursor.Value, nil
}

func (g *gateway) accept(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.changed.Broadcast()
	if g.full > 0 {
		g.full--
		return errors.New("disk full")
	}
	if g.store != nil {
		stored, err := g.store.Accept(ctx, cursors, batch...)
		if err != nil {
			return err
		}
		batch = stored
	}
	for _, in := range batch {
		if !slices.ContainsFunc(g.accepted, func(old conversation.Inbound) bool { return old.SourceID == in.SourceID }) {
			g.accepted = append(g.accepted, in)
		}
	}
	g.batches++
	if len(cursors) > 0 {
		g.cursor = cursors[0]
	}
	return nil
}

// run runs the adapter until the returned function is called, which returns the result of Run.
func (g *gateway) run(c *telegram.Channel) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, g.accept) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(waittest.Patience):
			g.t.Error("the adapter does not end")
			return errors.New("the adapter does not end")
		}
	})
	g.t.Cleanup(func() { stop() })
	return stop
}

// wait waits until n messages were accepted, and returns them.
func (g *gateway) wait(n int) []conversation.Inbound {
	g.t.Helper()
	g.until(func() bool { return len(g.accepted) >= n })
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.accepted)
}

func (g *gateway) until(done func() bool) {
	g.t.Helper()
	ctx := deadline(g.t)
	context.AfterFunc(ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.changed.Broadcast()
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for !done() {
		if ctx.Err() != nil {
			g.t.Fatalf("waited in vain; accepted: %+v\nlog:\n%s", g.accepted, g.log.String())
		}
		g.changed.Wait()
	}
}

// texts returns the texts of messages.
func texts(accepted []conversation.Inbound) []string {
	var texts []string
	for _, in := range accepted {
		texts = append(texts, in.Text)
	}
	return texts
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (g *gateway) logged(text string) int { return strings.Count(g.log.String(), text) }

// waitLog waits until the log holds a text.
func (g *gateway) waitLog(text string) {
	g.t.Helper()
	g.waitLogged(text, 1)
}

// waitLogged waits until the log contains a text a number of times.
func (g *gateway) waitLogged(text string, times int) {
	g.t.Helper()
	ctx := deadline(g.t)
	for g.logged(text) < times {
		select {
		case <-ctx.Done():
			g.t.Fatalf("the log never said %q:\n%s", text, g.log.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// messages is the gateway as the adapter's store.
type messages struct{ *gateway }

func (m messages) IsUnderWay(_ context.Context, place conversation.Key, run int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return place == "telegram:chat:42" && run == m.underWay, nil
}

func (m messages) HasAlbum(ctx context.Context, of conversation.Account, album string) (bool, error) {
	if m.store == nil {
		return false, nil
	}
	return m.store.HasAlbum(ctx, of, album)
}

func (m messages) Edit(ctx context.Context, of conversation.Account, sourceID, text string, at time.Time) error {
	if m.store == nil {
		return nil
	}
	key, err := m.store.Edit(ctx, of, sourceID, text, at)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.edits = append(m.edits, fmt.Sprintf("%s %s: %s", key, sourceID, text))
	m.changed.Broadcast()
	return err
}
