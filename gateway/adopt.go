package gateway

import (
	"context"
	"time"

	"parley/conversation"
	"parley/conversation/places"
)

// signalledPlaces signals the gateway when a place that has a session of its own moves.
type signalledPlaces struct {
	*places.Places
	moved chan<- struct{}
}

func (p signalledPlaces) MovePlace(ctx context.Context, from, to conversation.Key, readdress func(address string) string) (places.Moved, error) {
	moved, err := p.Places.MovePlace(ctx, from, to, readdress)
	if err == nil && moved.OwnSession {
		select {
		case p.moved <- struct{}{}:
		default: // a signal is pending
		}
	}
	return moved, err
}

const (
	adoptTimeout = 30 * time.Second // to wait for the run of a session to end
	adoptRetry   = time.Minute
)

// adoptPlaces merges the own sessions of places that have moved into the sessions
// that they now belong to, whenever a place moves, until ctx ends.
func (g *Gateway) adoptPlaces(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-g.moved:
		case <-retry.C:
		case <-ctx.Done():
			return
		}
		if !g.adoptAll(ctx, g.router.Exclusively) {
			retry.Reset(adoptRetry)
		}
	}
}

// adoptAll merges all sessions that wait for it and reports whether none is left.
// locked runs a function while nothing else works the session.
func (g *Gateway) adoptAll(ctx context.Context, locked func(context.Context, conversation.Key, func(context.Context) error) error) (done bool) {
	done = true
	for channel := range g.channels {
		list, err := places.New(g.store).OwnSessions(ctx, channel)
		if err != nil && ctx.Err() == nil {
			g.log.Warn("moved places not read", "channel", channel, "error", err)
		}
		done = done && err == nil
		for _, place := range list {
			done = g.adopt(ctx, place, locked) && done
		}
	}
	return done
}

func (g *Gateway) adopt(ctx context.Context, place conversation.Key, locked func(context.Context, conversation.Key, func(context.Context) error) error) bool {
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	var session conversation.Key
	err := locked(ctx, place, func(ctx context.Context) (err error) {
		session, err = places.New(g.store).AdoptPlace(ctx, place)
		return err
	})
	if err != nil {
		g.log.Warn("moved place not adopted yet", "place", place, "error", err)
		return false
	}
	if session != "" {
		g.log.Info("moved place adopted", "session", session, "place", place)
		g.router.Wake(session)
		g.feed.Changed(session)
		g.feed.Changed(place)
	}
	return true
}

// withLock runs do while holding the session's lock. It is for the start, before
// any loop runs.
func (g *Gateway) withLock(ctx context.Context, key conversation.Key, do func(context.Context) error) error {
	release, err := g.store.Lock(key)
	if err != nil {
		return err
	}
	defer release()
	return do(ctx)
}
