package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/dbhealth"
)

// Run serves until a signal comes, ctx ends, the user leaves the terminal, or every
// channel has failed, which is ErrReported. It ends from the front to the back: intake
// stops, runs under way finish, their replies are delivered, and the HTTP server closes,
// which has refused new work meanwhile. A second signal interrupts the runs.
func (g *Gateway) Run(ctx context.Context) error {
	intake, stopIntake := context.WithCancel(ctx)
	defer stopIntake()
	hard, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	stopSignals := g.onSignals(stopIntake, interrupt)
	defer stopSignals()

	stopRelay := g.relayFeed() // until the last run has ended
	defer stopRelay()

	flush := make(chan struct{})
	delivery, stopDelivery := context.WithCancel(hard)
	defer stopDelivery()
	var senders errgroup.Group
	var scopes []conversation.Scope
	for _, c := range g.channels {
		senders.Go(func() error { return c.sender.Run(delivery, c.scope, flush) })
		scopes = append(scopes, c.scope)
	}
	context.AfterFunc(intake, func() {
		g.ending.Store(true)
		time.AfterFunc(g.cfg.Agent.DrainTimeout, stopDelivery)
	})
	closeHTTP := g.serveHTTP(intake, delivery)
	defer closeHTTP()

	g.log.Info("gateway started", "version", g.version, "database", g.store.Path(), "model", g.choice.Model, "channels", g.names(), "http", g.url())
	g.adoptAll(intake, g.withLock) // before a loop works such a session on its own
	var front errgroup.Group
	front.Go(func() error {
		g.awaitTools(intake)
		return g.router.Run(intake, hard, scopes...)
	})
	if g.terminal == nil { // a terminal shows the problem to its user
		front.Go(func() error {
			if problem := g.modelProblem(intake, patientCheck); problem != nil {
				g.log.Warn("model not ready", "error", problem)
			}
			return nil
		})
	}
	for _, work := range g.background(scopes) {
		front.Go(func() error {
			work(intake)
			return nil
		})
	}
	front.Go(func() error {
		defer stopIntake()
		return g.runIntake(intake, stopIntake)
	})
	err := front.Wait()
	close(flush)
	err = errors.Join(err, senders.Wait())
	if g.terminal != nil {
		err = errors.Join(err, g.terminal.End())
	}
	closeHTTP()
	g.log.Info("gateway stopped")
	return err
}

// background returns the functions that run beside the channels until their context ends.
func (g *Gateway) background(scopes []conversation.Scope) []func(context.Context) {
	list := []func(context.Context){
		g.adoptPlaces,
		func(ctx context.Context) { g.runCleanup(ctx, firstCleanup) },
		g.runReminders,
		g.servers.Run,
		func(ctx context.Context) { g.checkAfterCrash(ctx, firstCheck) },
		g.releaseUnused,
		func(ctx context.Context) {
			dbhealth.New(g.store).Watch(ctx, func() {
				g.router.Resume(ctx, scopes...)
				for _, c := range g.channels {
					c.sender.Resume(ctx, c.scope)
				}
			})
		},
	}
	if g.vectors != nil {
		list = append(list, func(ctx context.Context) { g.store.Node().WhileKeeping(ctx, g.vectors.Run) })
	}
	if g.imports != nil {
		list = append(list, g.imports.run)
	}
	return list
}

// serveHTTP runs the HTTP server, if there is one, until stop is called. Requests under way
// may go on until hard ends.
func (g *Gateway) serveHTTP(intake, hard context.Context) (stop func()) {
	if g.http == nil {
		return func() {}
	}
	closing, cancel := context.WithCancel(context.WithoutCancel(intake))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := g.http.Run(intake, closing, hard); err != nil {
			g.log.Error("HTTP server ended", "error", err)
		}
	})
	return func() {
		cancel()
		serving.Wait()
	}
}

// runIntake runs the channels and returns when all have ended. A channel that fails does
// not end the others. It returns ErrReported if all have failed.
func (g *Gateway) runIntake(intake context.Context, stopIntake func()) error {
	var running errgroup.Group
	var served atomic.Int64
	for _, c := range g.channels {
		running.Go(func() error {
			g.announceBot(intake, c.scope.By())
			err := c.Run(intake, g.accept)
			if c.Source == g.terminal {
				stopIntake()
				served.Add(1)
				return err
			}
			if err != nil {
				g.log.Error("channel ended", "channel", c.Name(), "error", err)
				g.health(c.scope.By())(bots.Ended, err.Error())
				return nil
			}
			served.Add(1)
			return nil
		})
	}
	if err := running.Wait(); err != nil { // of the terminal; the others are logged
		return err
	}
	if served.Load() == 0 {
		return ErrReported
	}
	return nil
}

// url returns the address of the HTTP server, and who reaches it where that is not
// this machine alone; "" without one.
func (g *Gateway) url() string {
	if g.http == nil {
		return ""
	}
	if listens := g.http.ListensEverywhere(); listens != "" {
		return g.http.URL() + " and every other address of this machine (" + listens + ")"
	}
	return g.http.URL()
}

func (g *Gateway) names() []string {
	return slices.Sorted(maps.Keys(g.channels))
}
