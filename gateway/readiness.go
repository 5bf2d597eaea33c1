package gateway

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
	Queues   []queueState            `json:"queues"` // of the channels in which anything waits
}

type storeState struct {
	Writable bool   `json:"writable"`
	Error    string `json:"error,omitempty"`
}

type channelState struct {
	Account string    `json:"account,omitempty"` // the platform's id of the bot that serves it
	State   string    `json:"state"`             // see conversation.Health
	Detail  string    `json:"detail,omitempty"`
	Since   time.Time `json:"since"`
}

// queueState is what waits for a bot of a channel, and how many seconds the oldest
// does.
type queueState struct {
	Channel      string  `json:"channel"`
	Account      string  `json:"account,omitempty"` // the platform's id of the bot that the queue waits for
	InboxWaiting int64   `json:"inbox_waiting"`
	InboxOldest  float64 `json:"inbox_oldest_seconds"`
	OutboxDue    int64   `json:"outbox_due"`
	OutboxOldest float64 `json:"outbox_oldest_seconds"`
	OutboxHeld   int64   `json:"outbox_held"` // of those that are due, set aside
	HeldOldest   float64 `json:"outbox_held_oldest_seconds"`
}

// readyTimeout is how long the parts may take to answer.
const readyTimeout = 3 * time.Second

// needsOperator reports whether a channel in a state serves nobody until somebody
// does something about it.
func needsOperator(state string) bool {
	return state == conversation.HealthRejected || state == conversation.HealthEnded
}

// readiness says that the gateway is ready while its store can be written and no
// channel is rejected by its platform or has ended. A platform that is away is no
// reason to look after the gateway: it comes back by itself.
func (g *Gateway) readiness() httpserver.ReadyFunc {
	probe := prober{probe: g.store.Probe}
	return func(ctx context.Context) (bool, any) {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		is := parts{Store: storeState{Writable: true}, Channels: map[string]channelState{}, Queues: []queueState{}}
		err := probe.ask(ctx)
		list, healthErr := g.store.Health(ctx)
		queues, queuesErr := g.store.Queues(ctx)
		if err == nil {
			err = errors.Join(healthErr, queuesErr)
		}
		if err != nil {
			is.Store = storeState{Error: err.Error()}
		}
		for _, q := range queues {
			is.Queues = append(is.Queues, queueState{
				Channel: q.Channel, Account: q.Account, InboxWaiting: q.Waiting, InboxOldest: secondsSince(q.OldestWaiting), OutboxDue: q.Due, OutboxOldest: secondsSince(q.OldestDue),
				OutboxHeld: q.Held, HeldOldest: secondsSince(q.OldestHeld),
			})
		}
		ready := err == nil
		for _, h := range list {
			if !g.serves(conversation.Account{Channel: h.Channel, ID: h.Account}) {
				continue // of an earlier configuration
			}
			is.Channels[h.Channel] = channelState{Account: h.Account, State: h.State, Detail: h.Detail, Since: h.Since}
			ready = ready && !needsOperator(h.State)
		}
		return ready, is
	}
}

// serves reports whether a channel is in service here, as this bot.
func (g *Gateway) serves(bot conversation.Account) bool {
	c := g.channels[bot.Channel]
	return c != nil && c.scope.Account == bot.ID
}

// secondsSince is how many seconds ago something was, 0 for nothing.
func secondsSince(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return time.Since(at).Seconds()
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
