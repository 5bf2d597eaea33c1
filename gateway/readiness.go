package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/channels"
	"parley/cluster"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/dbhealth"
	"parley/conversation/deferred"
	"parley/embedding"
	"parley/httpserver"
)

// parts is the body of /readyz.
type parts struct {
	Starting bool                    `json:"starting,omitempty"` // messages over HTTP are not taken yet
	Ending   bool                    `json:"ending,omitempty"`   // the runs under way are finished, and no more messages are taken
	Draining bool                    `json:"draining,omitempty"` // `gateway drain` has told it to hand its sessions over
	Degraded []string                `json:"degraded,omitempty"` // what does not work for people, although the gateway takes messages, in sentences for the operator
	Deferred deferredState           `json:"deferred"`
	Store    storeState              `json:"store"`
	Channels map[string]channelState `json:"channels"`
	Queues   []queueState            `json:"queues"` // only those that are not empty
	Held     []heldState             `json:"held,omitempty"`

	Embeddings *embeddingState        `json:"embeddings,omitempty"` // nil without an embedding model
	MCP        map[string]serverState `json:"mcp,omitempty"`        // by the names of the servers
	Models     map[string]modelState  `json:"models,omitempty"`     // by the names of the models; the offline model is left out
	Nodes      []nodeState            `json:"nodes,omitempty"`      // all nodes that share the database
}

// embeddingState is the state of the vectors of messages. It does not affect whether the gateway is
// ready: without vectors, messages are found by their words.
type embeddingState struct {
	Model string     `json:"model"`
	Done  int64      `json:"done"` // messages that have their vectors, or need none
	Total int64      `json:"total"`
	Error string     `json:"error,omitempty"` // error of the latest request, "" if it succeeded
	Since *time.Time `json:"since,omitempty"` // when requests began to fail
}

// heldState is one of the oldest replies that are set aside.
type heldState struct {
	Channel  string    `json:"channel"`
	Session  string    `json:"session"`
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`
	Error    string    `json:"error"`
}

// deferredState counts the messages that wait for a model that can't be called.
type deferredState struct {
	Messages int     `json:"messages"`
	Sessions int     `json:"sessions"`
	Oldest   float64 `json:"oldest_seconds"`
}

type storeState struct {
	Writable bool     `json:"writable"`
	Error    string   `json:"error,omitempty"`
	Damaged  []string `json:"damaged,omitempty"` // parts that can't be read, see conversation.Store.Damages
}

type channelState struct {
	Account string    `json:"account,omitempty"` // the platform's id of the bot that serves it
	State   string    `json:"state"`             // see bots.Health
	Detail  string    `json:"detail,omitempty"`
	Since   time.Time `json:"since"`
}

// queueState is what waits for a bot of a channel. Ages are in seconds.
type queueState struct {
	Channel      string  `json:"channel"`
	Account      string  `json:"account,omitempty"` // the platform's id of the bot that the queue waits for
	InboxWaiting int64   `json:"inbox_waiting"`
	InboxOldest  float64 `json:"inbox_oldest_seconds"`
	OutboxDue    int64   `json:"outbox_due"`
	OutboxOldest float64 `json:"outbox_oldest_seconds"`
	OutboxHeld   int64   `json:"outbox_held"` // due replies that are set aside, see delivery
	HeldOldest   float64 `json:"outbox_held_oldest_seconds"`
}

// readyTimeout limits how long the store may take to answer.
const readyTimeout = 3 * time.Second

// stalledAfter is how long the replies of a channel wait until its delivery counts as stalled.
const stalledAfter = time.Minute

// needsOperator reports whether a channel in this state stays out of service until
// the operator acts.
func needsOperator(state string) bool {
	return state == bots.Rejected || state == bots.Ended
}

// readiness returns the check behind /readyz. The gateway is ready while it takes
// messages over HTTP, neither drains nor ends, the store can be written and has no known damage, and no
// channel was rejected by its platform or has ended. A platform or a model that is away does
// not count: the gateway tries again by itself, and another node would do no better.
func (g *Gateway) readiness() httpserver.ReadyFunc {
	health := dbhealth.New(g.store)
	writes := &prober[struct{}]{every: probeEvery, works: health.WorksSince, probe: func(ctx context.Context) (struct{}, error) {
		return struct{}{}, health.Probe(ctx)
	}}
	reads := &prober[seen]{works: health.WorksSince, probe: g.readSeen}
	return func(ctx context.Context) (bool, any) {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		written, read := writes.ask(), reads.ask()
		_, err := written.answer(ctx)
		is, readErr := read.answer(ctx)
		if err == nil {
			err = readErr
		}
		return g.judge(is, err)
	}
}

// judge decides from what the store holds whether the gateway is ready. err is why
// the store can't be written or read. Secrets are hidden in the texts of platforms and servers.
func (g *Gateway) judge(in seen, err error) (ready bool, is parts) {
	is = parts{Store: storeState{Writable: true}, Channels: map[string]channelState{}, Queues: []queueState{}}
	if err != nil {
		is.Store = storeState{Error: g.secrets.Hide(err.Error())}
	}
	is.Store.Damaged = dbhealth.New(g.store).Damages()
	for _, q := range in.queues {
		is.Queues = append(is.Queues, queueState{
			Channel: q.Channel, Account: q.Account, InboxWaiting: q.Waiting, InboxOldest: g.secondsSince(q.OldestWaiting), OutboxDue: q.Due, OutboxOldest: g.secondsSince(q.OldestDue),
			OutboxHeld: q.Held, HeldOldest: g.secondsSince(q.OldestHeld),
		})
		if g.isStalled(q) {
			is.Degraded = append(is.Degraded, fmt.Sprintf("%s has taken no reply for %s: %s to %s to be sent, the oldest for %s", q.Channel, stalledAfter,
				plural(q.Due, "reply", "replies"), plural(q.DueSessions, "chat", "chats"), seconds(g.secondsSince(q.OldestDue))))
		}
	}
	for _, d := range in.held {
		is.Held = append(is.Held, heldState{Channel: d.Channel, Session: string(d.Key), Since: d.HeldAt, Attempts: d.Attempts, Error: g.secrets.Hide(d.Reason)})
	}
	if in.embeddings != nil {
		is.Embeddings = &embeddingState{Model: in.embeddings.Model, Done: in.embeddings.Done, Total: in.embeddings.Total, Error: g.secrets.Hide(in.embeddings.Failure)}
		if in.embeddings.Failure != "" {
			is.Embeddings.Since = &in.embeddings.Since
		}
	}
	is.MCP, is.Models = g.serverStates(), g.modelStates()
	var deferred []string
	is.Deferred, deferred = g.deferredStates(in.deferred)
	is.Degraded = append(is.Degraded, deferred...)
	is.Starting, is.Ending = g.isStarting(), g.ending.Load()
	is.Nodes, is.Draining = g.nodeStates(in.nodes), g.isDraining()
	ready = err == nil && len(is.Store.Damaged) == 0 && !is.Starting && !is.Ending && !is.Draining
	for _, h := range in.health {
		if !g.serves(conversation.Account{Channel: h.Channel, ID: h.Account}) {
			continue // of an earlier configuration
		}
		if h.NodeID != 0 && h.NodeID != g.store.Node().ID() {
			continue // /readyz of that node says so
		}
		is.Channels[h.Channel] = channelState{Account: h.Account, State: h.State, Detail: g.secrets.Hide(h.Detail), Since: h.Since}
		ready = ready && !needsOperator(h.State)
	}
	return ready, is
}

// isStalled reports whether replies of a queue that this process sends wait for a minute in which its platform has taken none. It does
// not make the gateway unready: another process would fare no better.
func (g *Gateway) isStalled(q bots.Queue) bool {
	c := g.channels[q.Channel]
	return c != nil && c.scope.By().Serves(conversation.Account{Channel: q.Channel, ID: q.Account}) &&
		g.secondsSince(q.OldestDue) >= stalledAfter.Seconds() && c.sender.IsStalled(stalledAfter, q.DueSessions)
}

// isStarting reports whether HTTP is served already, but messages are not accepted over it yet.
func (g *Gateway) isStarting() bool {
	for _, c := range g.channels {
		if hosted, ok := c.Source.(channels.Starter); ok && !hosted.HasStarted() {
			return true
		}
	}
	return false
}

// seen is what the store says about the channels.
type seen struct {
	health []bots.Health
	queues []bots.Queue
	held   []conversation.Delivery
	nodes  []cluster.Member

	deferred []deferred.Session

	embeddings *embedding.Status // nil without an embedding model
}

// maxHeld is how many of the replies that are set aside /readyz lists.
const maxHeld = 5

func (g *Gateway) readSeen(ctx context.Context) (in seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	if in.health, err = bots.New(g.store).Health(ctx); err != nil {
		return in, err
	}
	if in.queues, err = bots.New(g.store).Queues(ctx); err != nil {
		return in, err
	}
	if in.deferred, err = deferred.New(g.store).Sessions(ctx); err != nil {
		return in, err
	}
	if node := g.store.Node(); node != nil {
		if in.nodes, err = node.Members(ctx); err != nil {
			return in, err
		}
	}
	if g.vectors != nil {
		status, err := g.vectors.Status(ctx)
		if err != nil {
			return in, err
		}
		in.embeddings = &status
	}
	if slices.ContainsFunc(in.queues, func(q bots.Queue) bool { return q.Held > 0 }) {
		in.held, err = g.store.Deliveries(ctx, conversation.DeliveryQuery{Held: true, Limit: maxHeld})
	}
	return in, err
}

// serves reports whether this process serves the channel with this bot.
func (g *Gateway) serves(bot conversation.Account) bool {
	c := g.channels[bot.Channel]
	return c != nil && c.scope.Account == bot.ID
}

// secondsSince returns how many seconds ago a time was, 0 for the zero time.
func (g *Gateway) secondsSince(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return g.store.Now().Sub(at).Seconds()
}

// prober runs a check of the store for any number of callers, at most one at a time.
// Callers can stop waiting, so that a disk that hangs does not hold them up.
type prober[T any] struct {
	probe func(context.Context) (T, error)
	every time.Duration              // how long a result is reused after its check began
	works func(since time.Time) bool // whether other work of the store has succeeded since a time

	mu     sync.Mutex
	latest *question[T]
	good   T // the result of the latest check that succeeded
}

// question is one run of the check.
type question[T any] struct {
	prober *prober[T]
	asked  time.Time
	done   chan struct{} // closed when value and err are set
	value  T
	err    error
}

const (
	probeEvery    = time.Second
	probePatience = 30 * time.Second // how long a check may wait behind other work of a store that works
	workWithin    = 8 * time.Second  // how long ago other work may have succeeded
)

// answer waits for the result until ctx ends. If the check waits for longer, behind a thousand other reads or writes, the
// caller gets the latest good result, provided that the store has done other work meanwhile.
func (q *question[T]) answer(ctx context.Context) (value T, err error) {
	select {
	case <-q.done:
		return q.value, q.err
	case <-ctx.Done():
	}
	if time.Since(q.asked) < probePatience && q.prober.works(time.Now().Add(-workWithin)) {
		q.prober.mu.Lock()
		defer q.prober.mu.Unlock()
		return q.prober.good, nil
	}
	return value, errors.New("the database does not answer")
}

// ask asks for the result of the check under way, of the last one if its result may still be reused, or of a new one.
func (p *prober[T]) ask() *question[T] {
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
	q := &question[T]{prober: p, asked: time.Now(), done: make(chan struct{})}
	p.latest = q
	go func() {
		defer close(q.done)
		if q.value, q.err = p.probe(context.Background()); q.err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.good = q.value
		}
	}()
	return q
}
