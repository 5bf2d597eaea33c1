package gateway

import (
	"testing"
	"time"

	"parley/cluster/clustertest"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// A draining node is not ready, so that a load balancer skips it, and /readyz lists the nodes.
func TestReadyShowsNodes(t *testing.T) {
	t.Parallel()
	url := clustertest.Database(t)
	store := storetest.New(t)
	store.Join(clustertest.Join(t, url, "here"))
	other := clustertest.Join(t, url, "there")
	g := &Gateway{store: store}
	if ready, is := g.readiness()(t.Context()); !ready || is.(parts).Draining || len(is.(parts).Nodes) != 2 {
		t.Errorf("ready is %t: %+v", ready, is)
	}
	if err := other.Drain(t.Context(), store.Node().ID(), true); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(waittest.Patience); !store.Node().IsDraining(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the node does not know that it drains")
		}
	}
	ready, is := g.readiness()(t.Context())
	nodes := is.(parts).Nodes
	if ready || !is.(parts).Draining || len(nodes) != 2 || nodes[0].Name != "here" || nodes[0].State != "draining" || !nodes[0].Self || nodes[1].State != "serving" || nodes[1].Self {
		t.Errorf("while it drains, ready is %t: %+v", ready, is)
	}
}
