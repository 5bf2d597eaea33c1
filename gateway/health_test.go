package gateway

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/storetest"
)

// newIdleGateway returns a gateway with bots on Telegram and Discord that only answers `gateway
// health`.
func newIdleGateway(t *testing.T) *Gateway {
	t.Helper()
	store := storetest.New(t)
	g := &Gateway{store: store, channels: map[string]*served{}}
	for _, bot := range []conversation.Account{{Channel: "telegram", ID: "55"}, {Channel: "discord", ID: "56"}} {
		g.channels[bot.Channel] = &served{Source: nameOnly{name: bot.Channel}, scope: conversation.Scope{Channel: bot.Channel, Account: bot.ID}}
	}
	g.ready = g.readiness()
	t.Cleanup(g.answerHealth())
	return g
}

func (g *Gateway) setHealth(t *testing.T, bot, state, detail string) {
	t.Helper()
	channel, id, _ := strings.Cut(bot, ":")
	if err := bots.New(g.store).SetHealth(t.Context(), conversation.Account{Channel: channel, ID: id}, state, detail); err != nil {
		t.Fatal(err)
	}
}

// healthOf returns what `gateway health` prints, and why it fails.
func (g *Gateway) healthOf(t *testing.T) (out, problems string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var printed bytes.Buffer
	if err := CheckHealth(ctx, &printed, g.store.Path()); err != nil {
		problems = err.Error()
	}
	return printed.String(), problems
}

// Health does not fail because a platform is away, or because of messages of a former bot.
func TestHealthListsTheStateOfChannels(t *testing.T) {
	t.Parallel()
	g := newIdleGateway(t)
	g.setHealth(t, "telegram:55", bots.Serving, "")
	g.setHealth(t, "discord:56", bots.Interrupted, "the connection was cut")
	g.setHealth(t, "discord:12", bots.Rejected, "the former bot's")
	out, problems := g.healthOf(t)
	if problems != "" {
		t.Errorf("it fails: %s", problems)
	}
	lines := strings.Split(out, "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[0], "serves "+g.store.Path()) || !strings.HasPrefix(lines[1], "discord (bot 56): interrupted since ") ||
		!strings.HasSuffix(lines[1], "(the connection was cut)") || !strings.HasPrefix(lines[2], "telegram (bot 55): serving since ") {
		t.Errorf("printed %q", out)
	}
}

func TestHealthFailsWhileAPlatformRejectsTheBot(t *testing.T) {
	t.Parallel()
	g := newIdleGateway(t)
	g.setHealth(t, "telegram:55", bots.Rejected, "check token in [telegram]")
	g.setHealth(t, "discord:56", bots.Ended, "it is over")
	_, problems := g.healthOf(t)
	for _, want := range []string{"telegram (bot 55) is rejected since ", ": check token in [telegram]", "discord (bot 56) is ended since ", ": it is over"} {
		if !strings.Contains(problems, want) {
			t.Errorf("it does not say %q: %s", want, problems)
		}
	}
}

func TestHealthShowsDelayedMessagesAndReplies(t *testing.T) {
	t.Parallel()
	g := newIdleGateway(t)
	ids := map[string]string{"1": "stuck", "2": "later"}
	for id, text := range ids {
		in := conversation.Inbound{Key: "telegram:chat:1", Account: "55", SourceID: id, Address: "{}", Text: "?", At: time.Now()}
		stored, err := g.store.Accept(t.Context(), nil, in)
		if err != nil {
			t.Fatal(err)
		}
		done, err := g.store.Commit(t.Context(), conversation.Run{
			Key: in.Key, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: stored,
			Replies: []conversation.Delivery{{Key: in.Key, Address: "{}", Text: text}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if text == "stuck" {
			done.Replies[0].Attempts = 9
			if err := g.store.Mark(t.Context(), done.Replies[0], conversation.MarkHeld, "502 Bad Gateway"); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, problems := g.healthOf(t)
	for _, want := range []string{"telegram (bot 55): 2 replies to be sent, the oldest for ", "s; 1 of them set aside, the oldest for ", "telegram:chat:1: a reply is set aside since ", ", after 9 tries: 502 Bad Gateway"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %s", want, out)
		}
	}
	if problems != "" {
		t.Errorf("it fails: %s", problems)
	}
}

func TestHealthFailsWhenTheStoreCannotBeWritten(t *testing.T) {
	t.Parallel()
	g := newIdleGateway(t)
	path := g.store.Path()
	if err := g.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, problems := g.healthOf(t); !strings.Contains(problems, "the database can't be written: ") {
		t.Errorf("%s: it says %q", path, problems)
	}
}

func TestHealthFailsWhenNoGatewayRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "conversations.db")
	err := CheckHealth(t.Context(), &bytes.Buffer{}, path)
	if err == nil || !strings.Contains(err.Error(), "no gateway serves "+path) || !strings.Contains(err.Error(), "gateway run") {
		t.Errorf("of no database it says %v", err)
	}
	store, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CheckHealth(t.Context(), &bytes.Buffer{}, path); err == nil || !strings.Contains(err.Error(), "no gateway serves") {
		t.Errorf("of a database at rest it says %v", err)
	}
}
