package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/dbhealth"
)

// Run serves until a signal comes, ctx ends, the user leaves the terminal, or every
// channel has failed, which is ErrReported. It ends from the front to the back:
// intake stops and streams end, runs under way finish, their replies are delivered.
// A second signal interrupts the runs.
func (g *Gateway) Run(ctx context.Context) error {
	intake, stopIntake := context.WithCancel(ctx)
	defer stopIntake()
	hard, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	stopSignals := g.onSignals(stopIntake, interrupt)
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
	g.adoptAll(intake, g.withLock) // before a loop works such a session on its own
	var front errgroup.Group
	front.Go(func() error { return g.router.Run(intake, hard, scopes...) })
	front.Go(func() error {
		g.adoptPlaces(intake)
		return nil
	})
	front.Go(func() error {
		g.runCleanup(intake, firstCleanup)
		return nil
	})
	if g.vectors != nil {
		front.Go(func() error {
			g.vectors.Run(intake)
			return nil
		})
	}
	front.Go(func() error {
		g.checkAfterCrash(intake, firstCheck)
		return nil
	})
	front.Go(func() error {
		dbhealth.New(g.store).Watch(intake, func() { g.router.Resume(intake, scopes...) })
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

// runIntake runs the channels and the HTTP server and returns when all have ended. A
// channel that fails does not end the others. It returns ErrReported if all have
// failed. Requests under way may go on until hard ends.
func (g *Gateway) runIntake(intake context.Context, stopIntake func(), hard context.Context) error {
	var running errgroup.Group
	var served atomic.Int64
	for _, c := range g.channels {
		running.Go(func() error {
			g.announceBot(intake, c.scope.By())
			err := c.Run(intake, g.accept)
			if err != nil {
				g.log.Error("channel ended", "channel", c.Name(), "error", err)
				g.health(c.scope.By())(bots.Ended, err.Error())
				return nil
			}
			served.Add(1)
			if c.Source == g.terminal {
				stopIntake()
			}
			return nil
		})
	}
	if g.http != nil {
		running.Go(func() error {
			if err := g.http.Run(intake, hard); err != nil {
				g.log.Error("HTTP server ended", "error", err)
				return nil
			}
			served.Add(1)
			return nil
		})
	}
	_ = running.Wait() // every error is logged
	if served.Load() == 0 {
		return ErrReported
	}
	return nil
}

// url returns the address of the HTTP server, "" without one.
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
