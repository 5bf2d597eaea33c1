package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/channels"
	"parley/conversation"
)

// serve runs the channels, the router and the delivery until a signal comes,
// the terminal is left, or no channel is left. The end goes from the front to
// the back: intake stops and streams end, runs under way finish, their replies
// are delivered; a second signal hurries.
func (g *gateway) serve(ctx context.Context) error {
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

	g.log.Info("gateway started", "version", version(), "database", g.store.Path(), "model", g.choice.Model, "channels", g.names(), "http", g.url())
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
func (g *gateway) runIntake(intake context.Context, leave func(), hard context.Context) error {
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
			if c.Channel == g.leaving {
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
		return errTold
	}
	return nil
}

// url is where the gateway serves HTTP, "" where it does not.
func (g *gateway) url() string {
	if g.http == nil {
		return ""
	}
	return g.http.URL()
}

// accept is the way in: given to its session and stored first, then worked.
func (g *gateway) accept(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error {
	stored, err := g.store.Accept(ctx, cursors, g.shared.joinAll(batch)...)
	if err != nil {
		return err
	}
	g.router.Accepted(stored...)
	if len(stored) > 0 {
		g.metrics.Accepted(stored[0].Channel(), len(stored)) // a channel accepts its own alone
	}
	for i, in := range stored {
		if i == 0 || in.Key != stored[i-1].Key {
			g.feed.Changed(in.Key)
		}
	}
	return nil
}

var _ channels.AcceptFunc = (*gateway)(nil).accept

// onSignals calls first for the first SIGTERM or SIGINT, and second for the next.
func (g *gateway) onSignals(first, second func()) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for _, act := range []func(){first, second} {
			select {
			case s := <-signals:
				g.log.Info("ending", "signal", s.String(), "drain_timeout", g.cfg.Agent.DrainTimeout)
				act()
			case <-done:
				return
			}
		}
		signal.Stop(signals) // a third one kills
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

func (g *gateway) names() []string {
	var names []string
	for name := range g.channels {
		names = append(names, name)
	}
	return names
}
