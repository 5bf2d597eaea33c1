// Package delivery sends the replies in the outbox to a channel's platform. Each
// session has a queue of its own, so that a chat that is rate limited delays no
// other. Replies that the platform does not take are retried, set aside, or given
// up.
package delivery

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/activity"
	"parley/channels"
	"parley/cluster"
	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/retry"
	"parley/conversation/transcript"
	"parley/internal/clock"
)

// Outbox is what delivery needs of the store.
type Outbox interface {
	Lock(key conversation.Key) (release func(), err error)
	Node() *cluster.Node
	Now() time.Time
	Due(ctx context.Context, scope conversation.Scope) ([]conversation.Key, error)
	Deliveries(ctx context.Context, q conversation.DeliveryQuery) ([]conversation.Delivery, error)
	Mark(ctx context.Context, d conversation.Delivery, mark conversation.Mark, reason string) error
	ImageData(ctx context.Context, image media.Image) ([]byte, error)
	transcript.Source
}

// Sender delivers the replies of one channel. Replies of a session go out in
// order. One that the platform refuses for good is marked as failed, and the next
// one follows. One that the platform fails on while it takes everything else is
// set aside after a while, and retried beside the later ones.
type Sender struct {
	sink     channels.Sink
	outbox   Outbox
	log      *slog.Logger
	outage   *channels.Outage       // logs failed attempts, by their sessions
	observe  func(activity.Outcome) // nil: outcomes are not reported
	patience time.Duration          // how long a reply may hold up its session
	account  conversation.Account   // the bot whose replies are sent; set by Run

	work  chan work
	idle  chan *queue
	done  chan struct{}
	files chan struct{}             // holds one element for each queue that has files in memory
	taken atomic.Pointer[time.Time] // when the platform took a reply last, or Run began; nil: Run has not begun
	limit atomic.Pointer[time.Time] // when the latest wait ends that the platform has asked for; nil: it never has
	read  atomic.Int64              // ID of the newest delivery that a queue has read from the store

	mu      sync.Mutex
	sending map[conversation.Key]int    // by session: number of replies that wait for its queue, and 1 while it has a queue
	after   map[conversation.Key]func() // by session: the function that AfterSending was given last

	unmarked sync.Map // finished deliveries, by ID, that can't be marked because the store is damaged there
}

// New returns the sender of a channel. Run starts it.
func New(sink channels.Sink, outbox Outbox, log *slog.Logger, options ...Option) *Sender {
	log = log.With("channel", sink.Name())
	s := &Sender{
		sink:     sink,
		outbox:   outbox,
		log:      log,
		outage:   channels.NewOutage(log),
		patience: patience,
		work:     make(chan work, 1024),
		idle:     make(chan *queue),
		done:     make(chan struct{}),
		sending:  map[conversation.Key]int{},
		after:    map[conversation.Key]func(){},
		files:    make(chan struct{}, maxFiles),
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// work is a session that has something to be sent.
type work struct {
	key   conversation.Key
	reply *conversation.Delivery // nil: the session's due replies have to be read from the store
	swept bool                   // a sweep has found the reply: the session may have a queue already
}

// Enqueue passes replies that a run has committed, in the order given. It blocks
// only while the sender is busy with a thousand others.
func (s *Sender) Enqueue(replies ...conversation.Delivery) {
	for i := range replies {
		s.hand(work{key: replies[i].Key, reply: &replies[i]})
	}
}

// EnqueueDue makes the sender read the session's due deliveries from the store, such as
// a reply that is to be sent again.
func (s *Sender) EnqueueDue(key conversation.Key) { s.hand(work{key: key}) }

// Resume makes the sender read all due deliveries from the store, such as those of another process that has ended.
func (s *Sender) Resume(ctx context.Context, scope conversation.Scope) {
	for _, key := range s.unsent(ctx, scope) {
		s.EnqueueDue(key)
	}
}

// sweepEvery is how often a node of a cluster looks for replies that a node has left that is dead, or that
// another node has given to it.
const sweepEvery = time.Second

// sweep enqueues sessions with replies that are due and which no other node works, until ctx ends.
func (s *Sender) sweep(ctx context.Context, scope conversation.Scope) {
	node := s.outbox.Node()
	failing := false
	clock.Every(ctx, sweepEvery, func() {
		if handsOver, _ := node.HandsOver(); handsOver || !node.Valid() {
			return
		}
		free, err := s.claimable(ctx, scope)
		if err != nil && !failing && ctx.Err() == nil {
			s.log.Warn("due replies not read", "error", err)
		}
		failing = err != nil
		for _, session := range free {
			s.hand(work{key: conversation.Key(session.Key), swept: true})
		}
	})
}

func (s *Sender) claimable(ctx context.Context, scope conversation.Scope) ([]cluster.Claimable, error) {
	due, err := s.outbox.Due(ctx, scope)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(due))
	for i, key := range due {
		keys[i] = string(key)
	}
	return s.outbox.Node().Claimable(ctx, keys)
}

// IsStalled reports whether the platform has taken no reply for d, although replies of so many sessions have been due for
// as long. A single chat does not count while it waits because the platform has asked to.
func (s *Sender) IsStalled(d time.Duration, sessions int64) bool {
	taken := s.taken.Load()
	if taken == nil || time.Since(*taken) < d {
		return false
	}
	limit := s.limit.Load()
	return sessions > 1 || s.outage.Fails() && (limit == nil || time.Now().After(*limit))
}

func (s *Sender) noteTaken() {
	now := time.Now()
	s.taken.Store(&now)
}

// hand queues work for Run's goroutine.
func (s *Sender) hand(w work) {
	s.count(w.key, 1)
	select {
	case s.work <- w:
	case <-s.done:
		s.count(w.key, -1)
	}
}

// AfterSending reports whether replies of a session are being sent or wait for that, which
// stays true for a moment after the last one. If so, do is called once they are through,
// unless another do of the session takes its place before. Replies that are set aside do
// not count.
//
// No reply of the session is enqueued while do runs. It must not block, nor call the sender.
func (s *Sender) AfterSending(key conversation.Key, do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending[key] == 0 {
		return false
	}
	s.after[key] = do
	return true
}

func (s *Sender) count(key conversation.Key, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending[key] += change; s.sending[key] > 0 {
		return
	}
	delete(s.sending, key)
	if do := s.after[key]; do != nil {
		delete(s.after, key)
		do()
	}
}

// Run sends what an earlier process left, then what is enqueued. It returns when
// ctx ends or, once flush is closed, when nothing is being sent: it does not wait
// for a reply that waits to be retried. What is not sent by then stays in the
// outbox for the next start.
func (s *Sender) Run(ctx context.Context, scope conversation.Scope, flush <-chan struct{}) error {
	s.account = scope.By()
	s.noteTaken()
	d := dispatcher{sender: s, flush: flush, queues: map[conversation.Key]*queue{}, abandoned: map[conversation.Key]bool{}}
	d.held = heldSessions{sender: s, sessions: map[conversation.Key]*heldSession{}}
	defer d.working.Wait()
	defer close(s.done)
	defer d.held.stop()
	for _, key := range s.unsent(ctx, scope) {
		d.enqueue(ctx, work{key: key})
	}
	if s.outbox.Node() != nil {
		sweeping, stop := context.WithCancel(ctx)
		defer stop()
		d.working.Go(func() { s.sweep(sweeping, scope) })
	}
	end := flush // queues are handed flush itself, which this loop forgets once it is closed
	flushing := false
	for !flushing || len(d.queues) > 0 || len(s.work) > 0 {
		select {
		case w := <-s.work:
			if w.reply != nil && w.reply.ID <= s.read.Load() {
				w.reply = nil // a queue may have found it in the store already, and sent it
			}
			d.enqueue(ctx, w)
			s.count(w.key, -1)
		case q := <-s.idle:
			q.end <- d.settle(q)
		case <-end:
			end, flushing = nil, true
			d.held.stop()
		case <-ctx.Done():
			return nil
		}
	}
	if len(d.abandoned) > 0 {
		s.log.Info("replies left for the next start", "sessions", len(d.abandoned))
	}
	return nil
}

// dispatcher gives replies to the queues of their sessions. The goroutine of Sender.Run alone
// uses it.
type dispatcher struct {
	sender    *Sender
	flush     <-chan struct{}
	queues    map[conversation.Key]*queue
	abandoned map[conversation.Key]bool // sessions whose replies wait for the next start
	held      heldSessions
	working   sync.WaitGroup
}

// enqueue gives work to the queue of its session, which it starts if there is none.
func (d *dispatcher) enqueue(ctx context.Context, w work) {
	if d.abandoned[w.key] || w.swept && (d.queues[w.key] != nil || d.held.sessions[w.key] != nil) {
		return
	}
	q := d.queues[w.key]
	if q == nil {
		q = newQueue(d.sender, w.key, d.held.of(w.key), d.flush)
		d.queues[w.key] = q
		d.sender.count(w.key, 1)
		d.working.Go(func() { q.run(ctx) })
	}
	q.put(w.reply)
}

// settle forgets a queue that has nothing more to send, and reports whether it ends.
func (d *dispatcher) settle(q *queue) (ended bool) {
	ended = q.abandoned || q.elsewhere || len(q.ready) == 0
	if ended {
		delete(d.queues, q.key)
		d.sender.count(q.key, -1)
		d.held.settle(q.key, q.held)
	}
	if q.abandoned {
		d.abandoned[q.key] = true
	}
	if len(d.queues) == 0 {
		d.queues = map[conversation.Key]*queue{} // a map that was large stays large
	}
	return ended
}

// unsent returns the sessions with replies that an earlier process left.
func (s *Sender) unsent(ctx context.Context, scope conversation.Scope) (keys []conversation.Key) {
	err := retry.Persist(ctx, s.log, "read which replies were left unsent", func() (err error) {
		keys, err = s.outbox.Due(ctx, scope)
		return err
	})
	if err == nil && len(keys) > 0 {
		s.log.Info("sending replies from before", "sessions", len(keys))
	}
	return keys
}

// noteRead stores the id of the newest delivery that a queue has read. Many
// queues call it at once.
func (s *Sender) noteRead(id int64) {
	for newest := s.read.Load(); newest < id; newest = s.read.Load() {
		if s.read.CompareAndSwap(newest, id) {
			return
		}
	}
}
