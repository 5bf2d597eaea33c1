package discord

import (
	"context"
	"sync"
	"time"

	"parley/internal/clock"
)

// identifyPause is the time between two sessions that begin: Discord asks for
// 5 s, and counts from when a request arrives there. The second more is for
// requests that travel at different speeds.
// https://discord.com/developers/docs/events/gateway#sharding-max-concurrency
const identifyPause = 5*time.Second + time.Second

// identifyGate lets one session begin at a time, a pause after the one before has
// begun.
type identifyGate struct {
	pause time.Duration
	busy  chan struct{} // holds an element while a session begins

	mu   sync.Mutex
	next time.Time // the earliest start of the next session
}

func newIdentifyGate(pause time.Duration) *identifyGate {
	return &identifyGate{pause: pause, busy: make(chan struct{}, 1)}
}

// enter waits until a session may begin, or ctx ends. Whoever entered calls
// leave when the session has begun, or has failed to.
func (g *identifyGate) enter(ctx context.Context) error {
	select {
	case g.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		g.mu.Lock()
		wait := time.Until(g.next)
		g.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			<-g.busy
			return err
		}
	}
}

// leave lets the next session begin after the pause.
func (g *identifyGate) leave() {
	g.postpone()
	<-g.busy
}

// postpone moves the next start to a pause from now, as after a session
// that began without entering.
func (g *identifyGate) postpone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = time.Now().Add(g.pause)
}
