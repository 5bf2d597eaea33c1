package gateway

import (
	"context"
	"time"

	"parley/conversation"
)

// places tells the gateway of places that moved and have a session of their own.
type places struct {
	*conversation.Store
	moved chan<- struct{}
}

func (p places) MovePlace(ctx context.Context, from, to conversation.Key, readdress func(address string) string) (conversation.Moved, error) {
	moved, err := p.Store.MovePlace(ctx, from, to, readdress)
	if err == nil && moved.OwnSession {
		select {
		case p.moved <- struct{}{}:
		default: // it is told already
		}
	}
	return moved, err
}

const (
	adoptTimeout = 30 * time.Second // for a session at work to come to rest
	adoptRetry   = time.Minute
)

// adoptPlaces has sessions adopt what their places had of their own before they
// moved, whenever one has moved, until ctx ends.
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

// adoptAll reports whether nothing is left to be adopted. locked does something
// with a session's lock, while nobody works the session.
func (g *Gateway) adoptAll(ctx context.Context, locked func(context.Context, conversation.Key, func(context.Context) error) error) (done bool) {
	done = true
	for channel := range g.channels {
		list, err := g.store.OwnSessions(ctx, channel)
		if err != nil && ctx.Err() == nil {
			g.log.Warn("which places have moved can't be read", "channel", channel, "error", err)
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
		session, err = g.store.AdoptPlace(ctx, place)
		return err
	})
	if err != nil {
		g.log.Warn("what a place has said since it moved is not with its session yet", "place", place, "error", err)
		return false
	}
	if session != "" {
		g.log.Info("a session has adopted what its place had of its own", "session", session, "place", place)
		g.router.Look(session)
		g.feed.Changed(session)
		g.feed.Changed(place)
	}
	return true
}

// lockedBy does something with a session's lock, before any loop runs.
func (g *Gateway) lockedBy(ctx context.Context, key conversation.Key, do func(context.Context) error) error {
	release, err := g.store.Lock(key)
	if err != nil {
		return err
	}
	defer release()
	return do(ctx)
}
