package gateway

import (
	"context"
	"errors"
	"slices"
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
	Held     []heldState             `json:"held,omitempty"`
}

// heldState is a reply that is set aside, of the oldest.
type heldState struct {
	Channel  string    `json:"channel"`
	Session  string    `json:"session"`
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`
	Error    string    `json:"error"`
}

type storeState struct {
	Writable bool     `json:"writable"`
	Error    string   `json:"error,omitempty"`
	Damaged  []string `json:"damaged,omitempty"` // parts that can't be read, see conversation.Store.Damages
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

// readiness says that the gateway is ready while its store can be written, none of
// it was found to be damaged, and no channel is rejected by its platform or has ended. A platform that is away is no
// reason to look after the gateway: it comes back by itself.
func (g *Gateway) readiness() httpserver.ReadyFunc {
	writes := &prober[struct{}]{every: probeEvery, probe: func(ctx context.Context) (struct{}, error) {
		return struct{}{}, g.store.Probe(ctx)
	}}
	reads := &prober[seen]{probe: g.readSeen}
	return func(ctx context.Context) (bool, any) {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		written, read := writes.question(), reads.question()
		_, err := written.answer(ctx)
		is, readErr := read.answer(ctx)
		if err == nil {
			err = readErr
		}
		return g.judge(is, err)
	}
}

// judge says of what was seen in the store whether the gateway is ready. err is why
// the store can't be written or read.
func (g *Gateway) judge(in seen, err error) (ready bool, is parts) {
	is = parts{Store: storeState{Writable: true}, Channels: map[string]channelState{}, Queues: []queueState{}}
	if err != nil {
		is.Store = storeState{Error: err.Error()}
	}
	is.Store.Damaged = g.store.Damages()
	for _, q := range in.queues {
		is.Queues = append(is.Queues, queueState{
			Channel: q.Channel, Account: q.Account, InboxWaiting: q.Waiting, InboxOldest: secondsSince(q.OldestWaiting), OutboxDue: q.Due, OutboxOldest: secondsSince(q.OldestDue),
			OutboxHeld: q.Held, HeldOldest: secondsSince(q.OldestHeld),
		})
	}
	for _, d := range in.held {
		is.Held = append(is.Held, heldState{Channel: d.Channel, Session: string(d.Key), Since: d.HeldAt, Attempts: d.Attempts, Error: d.Reason})
	}
	ready = err == nil && len(is.Store.Damaged) == 0
	for _, h := range in.health {
		if !g.serves(conversation.Account{Channel: h.Channel, ID: h.Account}) {
			continue // of an earlier configuration
		}
		is.Channels[h.Channel] = channelState{Account: h.Account, State: h.State, Detail: h.Detail, Since: h.Since}
		ready = ready && !needsOperator(h.State)
	}
	return ready, is
}

// seen is what the store tells of the channels.
type seen struct {
	health []conversation.Health
	queues []conversation.Queue
	held   []conversation.Delivery
}

// maxHeld is how many of the replies that are set aside are named.
const maxHeld = 5

func (g *Gateway) readSeen(ctx context.Context) (in seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if in.health, err = g.store.Health(ctx); err != nil {
		return in, err
	}
	if in.queues, err = g.store.Queues(ctx); err != nil {
		return in, err
	}
	if slices.ContainsFunc(in.queues, func(q conversation.Queue) bool { return q.Held > 0 }) {
		in.held, err = g.store.Deliveries(ctx, conversation.DeliveryQuery{State: conversation.DueHeld, Limit: maxHeld})
	}
	return in, err
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

// prober asks the store a question, one at a time however many want to know, and
// without waiting for a disk that hangs.
type prober[T any] struct {
	probe func(context.Context) (T, error)
	every time.Duration // how long an answer is good

	mu     sync.Mutex
	latest *question[T]
}

// question is one that was asked.
type question[T any] struct {
	asked time.Time
	done  chan struct{} // closed when there is an answer
	value T
	err   error
}

const probeEvery = time.Second

// answer waits for the answer until ctx ends.
func (q *question[T]) answer(ctx context.Context) (value T, err error) {
	select {
	case <-q.done:
		return q.value, q.err
	case <-ctx.Done():
		return value, errors.New("the database does not answer")
	}
}

// question is the one under way, or the latest if its answer is still good.
func (p *prober[T]) question() *question[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.latest; q != nil {
		select {
		case <-q.done:
			if time.Since(q.asked) < p.every {
				return q
			}
		default:
			return q
		}
	}
	q := &question[T]{asked: time.Now(), done: make(chan struct{})}
	p.latest = q
	go func() {
		defer close(q.done)
		q.value, q.err = p.probe(context.Background())
	}()
	return q
}
