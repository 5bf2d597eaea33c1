package gateway

import (
	"context"
	"net"
	"os"
	"sync"

	"parley/activity"
	"parley/cluster"
	"parley/conversation"
)

// Several gateways on one PostgreSQL database are nodes of a cluster. A session is worked by one of them,
// while programs and pages may follow it on any other.

// nodeCommand returns the name of the process's command in the list of nodes.
func nodeCommand(o Options) string {
	if o.Daemon {
		return cluster.Serves
	}
	return "chat"
}

// nodeURL returns where this process serves HTTP, for people who look at the nodes; "" without HTTP.
func nodeURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}

// nodeState is a node in the body of /readyz. Ages are in seconds.
type nodeState struct {
	ID        int64    `json:"id"`
	Name      string   `json:"name"`
	URL       string   `json:"url,omitempty"`
	Version   string   `json:"version"`
	State     string   `json:"state"`          // see cluster.Member.State
	Self      bool     `json:"self,omitempty"` // this node is the one that answers the request
	Heartbeat float64  `json:"heartbeat_age_seconds"`
	Sessions  int      `json:"sessions"`
	Runs      int      `json:"runs"`
	Slots     int      `json:"run_slots"`
	Roles     []string `json:"roles"`
}

func (g *Gateway) nodeStates(members []cluster.Member) (list []nodeState) {
	for _, m := range members {
		list = append(list, nodeState{
			ID: m.ID, Name: m.Name, URL: m.URL, Version: m.Version, State: m.State(), Self: m.ID == g.store.Node().ID(),
			Heartbeat: m.Heartbeat.Seconds(), Sessions: m.Sessions, Runs: m.Runs, Slots: m.Slots, Roles: append([]string{}, m.Roles...),
		})
	}
	return list
}

// isDraining reports whether this process was told to hand its sessions over to other nodes.
func (g *Gateway) isDraining() bool {
	node := g.store.Node()
	return node != nil && node.IsDraining()
}

// isSpread reports whether the nodes share the sessions of a channel evenly. They do for channels whose messages
// all arrive at one node. Sessions of other channels are worked by the node at which a message arrives.
func isSpread(key conversation.Key) bool {
	return key.Channel() == "telegram" || key.Channel() == "discord"
}

// shareFeed shares the activity feed with the other nodes.
func (g *Gateway) shareFeed() {
	if node := g.store.Node(); node != nil {
		g.relay = activity.NewRelay(g.feed, node, g.log)
	}
}

// relayFeed runs the relay, if there is one, until stop is called.
func (g *Gateway) relayFeed() (stop func()) {
	if g.relay == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { g.relay.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
