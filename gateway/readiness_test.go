package gateway

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/storetest"
	"parley/embedding"
	"parley/internal/postgrestest"
)

// nameOnly is a channel without anything else.
type nameOnly struct {
	channels.Source
	name string
}

func (n nameOnly) Name() string { return n.name }

// A gateway that can't recover by itself is not ready, so that an orchestrator restarts it. One whose
// platform is away is ready.
func TestReadyFailsOnLastingTrouble(t *testing.T) {
	t.Parallel()
	store := storetest.New(t)
	g := &Gateway{store: store, channels: map[string]*served{"telegram": {Source: nameOnly{name: "telegram"}}}}
	ready := g.readiness()
	for _, c := range []struct {
		channel, state string
		want           bool
	}{
		{"telegram", bots.Connecting, true},
		{"telegram", bots.Serving, true},
		{"telegram", bots.Interrupted, true},
		{"discord", bots.Ended, true},    // is not configured any more
		{"discord", bots.Rejected, true}, // likewise
		{"telegram", bots.Rejected, false},
		{"telegram", bots.Serving, true},
		{"telegram", bots.Ended, false},
		{"telegram", bots.Serving, true},
	} {
		if err := bots.New(store).SetHealth(t.Context(), conversation.Account{Channel: c.channel}, c.state, "why"); err != nil {
			t.Fatal(err)
		}
		if got, is := ready(t.Context()); got != c.want {
			t.Errorf("%s %s: ready is %t: %+v", c.channel, c.state, got, is)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if got, is := g.readiness()(t.Context()); got || is.(parts).Store.Error == "" {
		t.Errorf("with a store that is gone, ready is %t: %+v", got, is)
	}
}

// When Telegram refuses the bot from one node and accepts it from another, only the first one is not ready.
func TestReadyFailsOnTroubleOfItsOwnNodeOnly(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	var nodes []*Gateway
	for _, state := range []string{bots.Rejected, bots.Serving} {
		store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		g := &Gateway{store: store, channels: map[string]*served{"telegram": {Source: nameOnly{name: "telegram"}}}}
		g.health(conversation.Account{Channel: "telegram"})(state, "why")
		nodes = append(nodes, g)
	}
	for i, want := range []bool{false, true} {
		if got, is := nodes[i].readiness()(t.Context()); got != want {
			t.Errorf("node %d: ready is %t: %+v", i, got, is)
		}
	}
}

// /readyz shows the progress of embeddings. A failing embeddings server does not make the gateway unready.
func TestReadyShowsEmbeddings(t *testing.T) {
	t.Parallel()
	g := &Gateway{store: storetest.New(t)}
	if ready, is := g.readiness()(t.Context()); !ready || is.(parts).Embeddings != nil {
		t.Errorf("without a model: %t, %+v", ready, is)
	}
	g.vectors = embedding.New(g.store, embedding.Config{Name: "nomic"})
	if ready, is := g.readiness()(t.Context()); !ready || is.(parts).Embeddings == nil || is.(parts).Embeddings.Model != "nomic" {
		t.Errorf("with a model: %t, %+v", ready, is)
	}
	since := time.Now()
	failing := seen{embeddings: &embedding.Status{Model: "nomic", Done: 3, Total: 5, Failure: "no answer", Since: since}}
	ready, is := g.judge(failing, nil)
	want := embeddingState{Model: "nomic", Done: 3, Total: 5, Error: "no answer", Since: &since}
	if diff := cmp.Diff(&want, is.Embeddings); !ready || diff != "" {
		t.Errorf("with a server that fails: %t\n%s", ready, diff)
	}
}
