package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/conversation"
)

// Run runs the channels, the router and the delivery until a signal comes,
// the terminal is left, or no channel is left, which is ErrReported. The end goes from the front to
// the back: intake stops and streams end, runs under way finish, their replies
// are delivered; a second signal hurries.
func (g *Gateway) Run(ctx context.Context) error {
	intake, stopIntake := context.WithCancel(ctx)
	defer stopIntake()
	hard, hurry := context.WithCancel(context.WithoutCancel(ctx))
	defer hurry()
	stopSignals := g.onSignals(stopIntake, hurry)
	defer stopSignals()

	flush := make(chan struct{})
	delivery, stopDelivery := context.WithCancel(hard)
	defer stopDelivery()
	var senders errgroup.Group
	var scopes []conversation.Scope
	for _, c := range g.channels {
		senders.Go(func() error { return c.sender.Run(delivery, c.scope, flush) })
		scopes = append(scopes, c.scope)
	}
	context.AfterFunc(intake, func() { time.AfterFunc(g.cfg.Agent.DrainTimeout, stopDelivery) })

	g.log.Info("gateway started", "version", g.version, "database", g.store.Path(), "model", g.choice.Model, "channels", g.names(), "http", g.url())
	g.adoptAll(intake, g.lockedBy) // before a loop works such a session on its own
	var front errgroup.Group
	front.Go(func() error { return g.router.Run(intake, hard, scopes...) })
	front.Go(func() error {
		g.adoptPlaces(intake)
		return nil
	})
	front.Go(func() error {
		g.tidy(intake, firstCleanup)
		return nil
	})
	front.Go(func() error {
		g.checkUnclean(intake, firstCheck)
		return nil
	})
	front.Go(func() error {
		g.store.Watch(intake, func() { g.router.Resume(intake, scopes...) })
		return nil
	})
	front.Go(func() error {
		defer stopIntake()
		return g.runIntake(intake, stopIntake, delivery)
	})
	err := front.Wait()
	close(flush)
	return errors.Join(err, senders.Wait())
}

// runIntake returns when every channel and the HTTP server have ended. A channel
// that fails ends alone; when nothing is left for that reason, so does the
// gateway. Requests under way have until hard ends.
func (g *Gateway) runIntake(intake context.Context, leave func(), hard context.Context) error {
	var running errgroup.Group
	var served atomic.Int64
	for _, c := range g.channels {
		running.Go(func() error {
			g.beginService(intake, c.scope.By())
			err := c.Run(intake, g.accept)
			if err != nil {
				g.log.Error("channel ended", "channel", c.Name(), "error", err)
				g.health(c.scope.By())(conversation.HealthEnded, err.Error())
				return nil
			}
			served.Add(1)
			if c.Source == g.leaving {
				leave()
			}
			return nil
		})
	}
	if g.http != nil {
		running.Go(func() error {
			if err := g.http.Run(intake, hard); err != nil {
				g.log.Error("the HTTP server ended", "error", err)
				return nil
			}
			served.Add(1)
			return nil
		})
	}
	_ = running.Wait() // each has told its error
	if served.Load() == 0 {
		return ErrReported
	}
	return nil
}

// url is where the gateway serves HTTP, "" where it does not.
func (g *Gateway) url() string {
	if g.http == nil {
		return ""
	}
	return g.http.URL()
}

func (g *Gateway) names() []string {
	var names []string
	for name := range g.channels {
		names = append(names, name)
	}
	return names
}
