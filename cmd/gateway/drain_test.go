package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/cluster"
	"parley/cluster/clustertest"
	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// A node that has no sessions may take one as long as it does not know that it drains: until then nothing says that it can be
// stopped.
func TestDrainWaitsUntilTheNodeKnows(t *testing.T) {
	t.Parallel()
	url := clustertest.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	join := func(url, name, command string) *cluster.Node {
		t.Helper()
		to, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		node, err := cluster.Join(t.Context(), cluster.Config{Database: to, Name: name, Command: command, Heartbeat: 200 * time.Millisecond, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := node.Leave(context.Background()); err != nil {
				t.Log("a node has not left:", err)
			}
		})
		return node
	}
	drains, here := join(proxy.URL(), "web-2", cluster.Serves), join(url, "here", "drain")
	proxy.Hang()
	var said gatewaytest.Log
	ended := make(chan error, 1)
	go func() { ended <- drain(t.Context(), &said, here, "web-2", false) }()
	gatewaytest.Await(t, "the command to look", func() bool { return said.String() != "" })
	if strings.Contains(said.String(), "can be stopped") {
		t.Errorf("while the node is cut off, the command says %q", said.String())
	}
	proxy.Resume()
	if err := waittest.Receive(t, ended, "the end of the command"); err != nil {
		t.Fatal(err)
	}
	if !drains.IsDraining() || !strings.HasSuffix(said.String(), "has handed everything over and can be stopped\n") {
		t.Errorf("the node knows: %t; the command says %q", drains.IsDraining(), said.String())
	}
}
