package discord

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"parley/cluster"
	"parley/internal/clock"
)

// identifyPause is the time between two sessions that begin: Discord asks for
// 5 s, and counts from when a request arrives there. The second more is for
// requests that travel at different speeds.
// https://discord.com/developers/docs/events/gateway#sharding-max-concurrency
const identifyPause = 5*time.Second + time.Second

// identifyGate lets one session begin at a time, at least a pause after the previous one has begun.
type identifyGate struct {
	pause time.Duration
	busy  chan struct{} // holds an element while a session begins
	name  string        // name of the cluster's role for this gate, which all nodes share
	node  *cluster.Node // nil: the bot has no other node
	log   *slog.Logger
	role  *cluster.Role // held, where there is a node, while a session begins

	mu   sync.Mutex
	next time.Time // the earliest start of the next session
}

// newIdentifyGate returns the gate of the shards that have a number in common, modulo Discord's max_concurrency.
func (c *Channel) newIdentifyGate(number int) *identifyGate {
	return &identifyGate{
		pause: c.identifyPause, busy: make(chan struct{}, 1),
		name: fmt.Sprintf("%s:identify:%d", c.Account(), number), node: c.Node, log: c.Log,
	}
}

// enter waits until a session may begin, or ctx ends. Whoever entered calls
// leave when the session has begun, or has failed to.
func (g *identifyGate) enter(ctx context.Context) error {
	select {
	case g.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := g.wait(ctx)
	if err == nil && g.node != nil {
		err = g.enterTogether(ctx)
	}
	if err != nil {
		<-g.busy
	}
	return err
}

// wait waits for the end of the pause.
func (g *identifyGate) wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		wait := time.Until(g.next)
		g.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// enterTogether is enter for a bot with several nodes. The node that begins a session holds a role of the cluster.
// A node that dies loses the role no sooner than after the pause.
func (g *identifyGate) enterTogether(ctx context.Context) error {
	role, err := g.node.Obtain(ctx, g.name)
	if err != nil {
		return err
	}
	if err := g.node.Pass(ctx, g.name, g.pause); err != nil {
		role.Release(ctx)
		return err
	}
	g.role = role
	return nil
}

// leave lets the next session begin after the pause.
func (g *identifyGate) leave(ctx context.Context) {
	g.postpone()
	if g.role != nil {
		if err := g.node.Shut(context.WithoutCancel(ctx), g.name, g.pause); err != nil {
			g.log.Warn("pace of new sessions not stored", "error", err)
		}
		g.role.Release(ctx)
		g.role = nil
	}
	<-g.busy
}

// postpone moves the next start to a pause from now, as after a session
// that began without entering.
func (g *identifyGate) postpone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = time.Now().Add(g.pause)
}
