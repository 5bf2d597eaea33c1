package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/conversation"
	"parley/httpserver"
)

// parts is what /readyz says of the gateway.
type parts struct {
	Store    storeState              `json:"store"`
	Channels map[string]channelState `json:"channels"`
}

type storeState struct {
	Writable bool   `json:"writable"`
	Error    string `json:"error,omitempty"`
}

type channelState struct {
	State  string    `json:"state"` // see conversation.Health
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since"`
}

// readyTimeout is how long the parts may take to answer.
const readyTimeout = 3 * time.Second

// readiness says that the gateway is ready while its store can be written and
// no channel has ended. A platform that is away is no reason to start the
// gateway anew: it comes back by itself.
func (g *gateway) readiness() httpserver.ReadyFunc {
	probe := prober{probe: g.store.Probe}
	return func(ctx context.Context) (bool, any) {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		is := parts{Store: storeState{Writable: true}, Channels: map[string]channelState{}}
		err := probe.ask(ctx)
		list, readErr := g.store.Health(ctx)
		if err = errors.Join(err, readErr); err != nil {
			is.Store = storeState{Error: err.Error()}
		}
		ready := err == nil
		for _, h := range list {
			if g.channels[h.Channel] == nil {
				continue // of an earlier configuration
			}
			is.Channels[h.Channel] = channelState{State: h.State, Detail: h.Detail, Since: h.Since}
			ready = ready && h.State != conversation.HealthEnded
		}
		return ready, is
	}
}

// prober asks the store whether it can be written, once in a second however
// many want to know, and without waiting for a disk that hangs.
type prober struct {
	probe func(context.Context) error

	mu     sync.Mutex
	latest *probed
}

// probed is one question.
type probed struct {
	asked time.Time
	done  chan struct{} // closed when there is an answer
	err   error
}

const probeEvery = time.Second

func (p *prober) ask(ctx context.Context) error {
	question := p.question()
	select {
	case <-question.done:
		return question.err
	case <-ctx.Done():
		return errors.New("the database does not answer")
	}
}

// question is the one under way, or the latest if that was a moment ago.
func (p *prober) question() *probed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.latest; q != nil {
		select {
		case <-q.done:
			if time.Since(q.asked) < probeEvery {
				return q
			}
		default:
			return q
		}
	}
	q := &probed{asked: time.Now(), done: make(chan struct{})}
	p.latest = q
	go func() {
		defer close(q.done)
		q.err = p.probe(context.Background())
	}()
	return q
}
