package discord

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/channels/discord/discordtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// takeoverLimit is how long a test waits until the nodes have taken over the shards of a dead node at Discord's pace. It
// takes far less.
const takeoverLimit = 2 * time.Minute

// newNode returns one of several nodes that serve the bot, with a store of its own on the database at url.
func newNode(t *testing.T, srv *discordtest.Server, url string) (*gateway, *Channel) {
	t.Helper()
	store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
	must(t, err)
	t.Cleanup(func() { store.Close() }) // its database may be cut off
	g := &gateway{t: t, srv: srv, store: store, cfg: DefaultConfig(), changed: make(chan struct{})}
	g.cfg.Token, g.cfg.APIURL, g.cfg.Access = discordtest.Token, srv.URL, "open"
	c, err := New(Deps{
		Config: g.cfg, Store: testStore{store, g}, Previews: store, Groups: bots.New(store), Commands: commands, Node: store.Node(),
		Log: slog.New(slog.NewTextHandler(testLog{t, &g.log}, nil)),
		Health: func(state, detail string) {
			g.note(func() { g.states, g.details = append(g.states, state), append(g.details, detail) })
		},
	})
	must(t, err)
	return g, c
}

func waitShards(t *testing.T, srv *discordtest.Server, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), takeoverLimit)
	defer cancel()
	must(t, srv.WaitShards(ctx, n))
}

// waitShardCount waits until a node has n shards.
func waitShardCount(t *testing.T, c *Channel, n int) {
	t.Helper()
	for end := time.Now().Add(takeoverLimit); len(c.shards.list()) != n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the node has the shards %v, want %d of them", c.shards.list(), n)
		}
	}
}

// Two nodes have half of the shards each, at Discord's pace, which the server enforces. When one is cut off from the
// database, the other one takes over its shards, and gives them back when it returns. Each message is stored once, also
// one from while its shard had no node.
func TestNodesShareTheShards(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: it waits at Discord's pace")
	}
	const shards = 4
	srv := discordtest.NewWith(t, discordtest.Config{Shards: shards, MaxConcurrency: 2})
	url := postgrestest.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	a, nodeA := newNode(t, srv, proxy.URL())
	b, nodeB := newNode(t, srv, url)
	ann := srv.Person("Ann")
	var rooms []discordtest.Channel
	for len(rooms) < shards { // one in each shard
		g := srv.Guild(fmt.Sprint("Server ", len(rooms)))
		if (&place{guild: g.ID}).shard(shards) == len(rooms) {
			rooms = append(rooms, srv.Channel(g, "general"))
		}
	}
	said := map[string]bool{}
	say := func(text string) {
		for i, room := range rooms {
			text := fmt.Sprint(text, " ", i)
			said[text] = true
			srv.Say(room, ann, discordtest.Bot.Mention()+" "+text)
		}
	}
	all := func() bool {
		var got []string
		for _, g := range []*gateway{a, b} {
			got = append(got, texts(g.inbounds())...)
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(got))); len(distinct) != len(got) {
			t.Fatalf("stored twice: %q", got)
		}
		return len(got) == len(said)
	}
	awaitAll := func(what string) {
		t.Helper()
		for end := time.Now().Add(takeoverLimit); !all(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain for the messages of %s: %q, %q", what, texts(a.inbounds()), texts(b.inbounds()))
			}
		}
	}

	runA := a.start(nodeA)
	waitShardCount(t, nodeA, shards)
	waitShards(t, srv, shards)
	say("alone")
	awaitAll("one node")
	b.start(nodeB)
	waitShardCount(t, nodeA, shards/2)
	waitShardCount(t, nodeB, shards/2)
	waitShards(t, srv, shards)
	say("together")
	awaitAll("two nodes")

	proxy.Interrupt()
	say("interrupted")
	waitShardCount(t, nodeB, shards)
	awaitAll("the node that is left")
	proxy.Resume()
	waitShardCount(t, nodeA, shards/2)
	waitShardCount(t, nodeB, shards/2)
	say("again")
	awaitAll("two nodes again")
	must(t, runA.stop())
	waitShardCount(t, nodeB, shards)
	waitShards(t, srv, shards)
	say("last")
	awaitAll("the last node")
	if v := srv.Violations(); len(v) > 0 {
		t.Errorf("Discord would refuse as malformed: %q", v)
	}
}

// The node that answers a command waits until the node that received it has acknowledged it to Discord.
func TestAnswerWaitsForTheFirstResponseOfAnotherNode(t *testing.T) {
	t.Parallel()
	srv, url := discordtest.New(t), postgrestest.Database(t)
	a, nodeA := newNode(t, srv, url)
	b, nodeB := newNode(t, srv, url)
	a.start(nodeA)
	waitShards(t, srv, 1)
	other := b.start(nodeB)
	ann := srv.Person("Ann")
	room := srv.Channel(srv.Guild("Home"), "general")
	acknowledged, acknowledge := waittest.Gate(t)
	srv.Fail("POST /interactions/{interaction}/{token}/callback", discordtest.Held(acknowledged), 1)
	a.waitCommands(discordtest.Guild{})
	used, err := srv.Slash(room, ann, "status")
	must(t, err)
	in := a.wait(1)[0]
	answered := make(chan error, 1)
	go func() {
		answered <- other.deliver(t.Context(), conversation.Delivery{Key: in.Key, Address: in.Address, Text: "all is well"})
	}()
	must(t, srv.WaitCalls(deadline(t), "PATCH /webhooks/{application}/{token}/messages/{message}", 1))
	acknowledge()
	must(t, waittest.Receive(t, answered, "the answer"))
	if got := srv.Answers(used); len(got) != 1 || !strings.Contains(got[0].Content, "all is well") {
		t.Errorf("answers: %+v", got)
	}
	if sent := srv.SentTo(room); len(sent) > 0 {
		t.Errorf("the private answer was posted: %+v", sent)
	}
	if len(nodeB.shards.list()) > 0 {
		t.Error("the node that answers has the shard")
	}
}

// When the other nodes use more shards than Discord recommends to this one, it uses as many as they do.
func TestNodeFollowsTheNumberOfShardsOfTheOthers(t *testing.T) {
	t.Parallel()
	srv, url := discordtest.New(t), postgrestest.Database(t)
	a, nodeA := newNode(t, srv, url)
	nodeA.Shards = 2
	b, nodeB := newNode(t, srv, url)
	nodeA.identifyPause, nodeB.identifyPause = time.Second, time.Second
	a.start(nodeA)
	waitShardCount(t, nodeA, 2)
	b.start(nodeB)
	waitShardCount(t, nodeB, 1)
	waitShardCount(t, nodeA, 1)
	waitShards(t, srv, 2)
}
