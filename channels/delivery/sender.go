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
	"parley/conversation"
	"parley/conversation/retry"
	"parley/conversation/transcript"
)

// Outbox is what delivery needs of the store.
type Outbox interface {
	Lock(key conversation.Key) (release func(), err error)
	Due(ctx context.Context, scope conversation.Scope) ([]conversation.Key, error)
	Deliveries(ctx context.Context, q conversation.DeliveryQuery) ([]conversation.Delivery, error)
	Mark(ctx context.Context, d conversation.Delivery, mark conversation.Mark, reason string) error
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
	observe  func(activity.Outcome) // nil: outcomes are not reported
	patience time.Duration          // how long a reply may hold up its session
	account  conversation.Account   // whose replies it sends, set by Run

	work        chan work
	idle        chan *queue
	done        chan struct{}
	transcripts chan struct{} // holds one element for each transcript in memory
	read        atomic.Int64  // the newest delivery that a queue has read from the store

	mu      sync.Mutex
	sending map[conversation.Key]int // by session: replies that wait for its queue, and 1 for the queue

	unmarked sync.Map // by ID, finished deliveries that can't be marked, since the store is damaged there
}

// New returns the sender of a channel. Run starts it.
func New(sink channels.Sink, outbox Outbox, log *slog.Logger, options ...Option) *Sender {
	s := &Sender{
		sink:        sink,
		outbox:      outbox,
		log:         log.With("channel", sink.Name()),
		patience:    patience,
		work:        make(chan work, 1024),
		idle:        make(chan *queue),
		done:        make(chan struct{}),
		sending:     map[conversation.Key]int{},
		transcripts: make(chan struct{}, maxTranscripts),
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// work is a session that has something to be sent.
type work struct {
	key   conversation.Key
	reply *conversation.Delivery // nil: it has to be read from the store
}

// Enqueue passes replies that a run has committed, in the order given. It blocks
// only while the sender is busy with a thousand others.
func (s *Sender) Enqueue(replies ...conversation.Delivery) {
	for i := range replies {
		s.hand(work{replies[i].Key, &replies[i]})
	}
}

// EnqueueDue makes the sender read the session's due deliveries from the store, such as
// a reply that is to be sent again.
func (s *Sender) EnqueueDue(key conversation.Key) { s.hand(work{key: key}) }

// hand passes work to Run's goroutine.
func (s *Sender) hand(w work) {
	s.count(w.key, 1)
	select {
	case s.work <- w:
	case <-s.done:
		s.count(w.key, -1)
	}
}

// IsSending reports whether replies of a session are being sent or wait for that.
// Replies that are set aside do not count. It stays true for a moment after the
// last reply.
func (s *Sender) IsSending(key conversation.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sending[key] > 0
}

func (s *Sender) count(key conversation.Key, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending[key] += change; s.sending[key] <= 0 {
		delete(s.sending, key)
	}
}

// Run sends what an earlier process left, then what is enqueued. It returns when
// ctx ends or, once flush is closed, when nothing is being sent: it does not wait
// for a reply that waits to be retried. What is not sent by then stays in the
// outbox for the next start.
func (s *Sender) Run(ctx context.Context, scope conversation.Scope, flush <-chan struct{}) error {
	defer close(s.done)
	s.account = scope.By()
	var working sync.WaitGroup
	defer working.Wait()
	queues := map[conversation.Key]*queue{}
	abandoned := map[conversation.Key]bool{} // sessions whose replies wait for the next start
	held := heldSessions{sender: s, sessions: map[conversation.Key]*heldSession{}}
	defer held.stop()
	enqueue := func(w work) {
		if abandoned[w.key] {
			return
		}
		q := queues[w.key]
		if q == nil {
			q = newQueue(s, w.key, held.of(w.key), flush)
			queues[w.key] = q
			s.count(w.key, 1)
			working.Go(func() { q.run(ctx) })
		}
		q.put(w.reply)
	}
	for _, key := range s.unsent(ctx, scope) {
		enqueue(work{key: key})
	}
	end := flush // queues are handed flush itself, which this loop forgets once it is closed
	flushing := false
	for !flushing || len(queues) > 0 || len(s.work) > 0 {
		select {
		case w := <-s.work:
			if w.reply != nil && w.reply.ID <= s.read.Load() {
				w.reply = nil // a queue may have found it in the store already, and sent it
			}
			enqueue(w)
			s.count(w.key, -1)
		case q := <-s.idle:
			ended := q.abandoned || len(q.ready) == 0
			if ended {
				delete(queues, q.key)
				s.count(q.key, -1)
				held.settle(q.key, q.held)
			}
			if q.abandoned {
				abandoned[q.key] = true
			}
			if len(queues) == 0 {
				queues = map[conversation.Key]*queue{} // a map that was large stays large
			}
			q.end <- ended
		case <-end:
			end, flushing = nil, true
			held.stop()
		case <-ctx.Done():
			return nil
		}
	}
	if len(abandoned) > 0 {
		s.log.Info("replies left for the next start", "sessions", len(abandoned))
	}
	return nil
}

// unsent returns the sessions with replies that an earlier process left.
func (s *Sender) unsent(ctx context.Context, scope conversation.Scope) (keys []conversation.Key) {
	err := retry.Persist(ctx, s.log, "read which replies were left unsent", func() (err error) {
		keys, err = s.outbox.Due(ctx, scope)
		return err
	})
	if err == nil && len(keys) > 0 {
		s.log.Info("sending replies from before the start", "sessions", len(keys))
	}
	return keys
}

// queue sends the replies of one session. It is one goroutine, which ends a
// moment after its last reply.
type queue struct {
	sender    *Sender
	key       conversation.Key
	held      *heldSession
	flush     <-chan struct{} // closed when the gateway ends
	ready     chan struct{}   // there is something to send
	end       chan bool       // the answer to idle: the sender has forgotten the queue, or there is work
	ended     int64           // the newest delivery that was brought to its end, or set aside
	abandoned bool            // the gateway ends, and what is not sent waits for the next start; read it after idle

	mu      sync.Mutex
	replies []conversation.Delivery // as committed, not yet sent
	inStore bool                    // replies have to be read from the store
}

const (
	batch  = 16               // deliveries that are read at once
	linger = time.Second / 10 // how long a queue without work stays: a goroutine for each reply costs more
)

func newQueue(s *Sender, key conversation.Key, held *heldSession, flush <-chan struct{}) *queue {
	return &queue{sender: s, key: key, held: held, flush: flush, ready: make(chan struct{}, 1), end: make(chan bool, 1)}
}

// put adds a reply; nil stands for those in the store.
func (q *queue) put(reply *conversation.Delivery) {
	q.mu.Lock()
	if reply == nil || q.inStore {
		q.replies, q.inStore = nil, true
	} else {
		q.replies = append(q.replies, *reply)
	}
	q.mu.Unlock()
	q.signal()
}

// signal wakes the queue.
func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns what was put into the queue, and empties it.
func (q *queue) take() (replies []conversation.Delivery, inStore bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	replies, inStore = q.replies, q.inStore
	q.replies, q.inStore = nil, false
	return replies, inStore
}

func (q *queue) run(ctx context.Context) {
	unlock, err := q.lock(ctx)
	if err != nil {
		q.abandon(ctx)
		return
	}
	defer unlock()
	idle := time.NewTimer(linger)
	defer idle.Stop()
	flush := q.flush
	for {
		select {
		case <-q.ready:
			if !q.send(ctx) {
				q.abandon(ctx)
				return
			}
			idle.Reset(linger)
			continue
		case <-idle.C:
		case <-flush:
			flush = nil // from now on without lingering
		case <-ctx.Done():
			return
		}
		if q.tryToEnd(ctx) {
			return
		}
		idle.Reset(0)
	}
}

// lock takes the session's lock. While another process has it, that process sends
// the replies; lock waits until ctx or the gateway ends.
func (q *queue) lock(ctx context.Context) (unlock func(), err error) {
	if unlock, err = q.sender.outbox.Lock(q.key); err == nil {
		return unlock, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-q.flush:
			cancel()
		case <-ctx.Done():
		}
	}()
	unlock, _, err = retry.Lock(ctx, q.sender.log, q.sender.outbox.Lock, q.key)
	if err == nil {
		q.put(nil) // the other process may have sent some
	}
	return unlock, err
}

// abandon leaves what is not sent to the next start.
func (q *queue) abandon(ctx context.Context) {
	q.abandoned = true
	q.tryToEnd(ctx)
}

// isEnding reports whether the gateway ends.
func (q *queue) isEnding() bool {
	select {
	case <-q.flush:
		return true
	default:
		return false
	}
}

// tryToEnd offers the sender to end the queue, and reports whether it has
// forgotten the queue.
func (q *queue) tryToEnd(ctx context.Context) bool {
	select {
	case q.sender.idle <- q:
	case <-ctx.Done():
		return true
	}
	// Nothing is taken from ready before the answer, which depends on it.
	select {
	case end := <-q.end:
		return end
	case <-ctx.Done():
		return true
	}
}

// send sends what was put into the queue. It returns false when ctx or the
// gateway ended before all was sent.
func (q *queue) send(ctx context.Context) bool {
	replies, inStore := q.take()
	if inStore {
		return q.sendDue(ctx)
	}
	for _, d := range replies {
		if d.ID <= q.ended { // it was found in the store as well
			continue
		}
		if !q.deliver(ctx, d) {
			return false
		}
	}
	return true
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

// sendDue sends what is due in the store. It returns false when ctx or the
// gateway ended before all was sent.
func (q *queue) sendDue(ctx context.Context) bool {
	q.held.waiting = true // perhaps
	for {
		var due []conversation.Delivery
		err := q.persist(ctx, "read the unsent replies", func() (err error) {
			due, err = q.sender.outbox.Deliveries(ctx, conversation.DeliveryQuery{Key: q.key, Ready: true, Limit: batch, Accounts: []conversation.Account{q.sender.account}})
			return err
		})
		if err != nil {
			return false
		}
		sent := false
		for _, d := range due {
			q.sender.noteRead(d.ID)
			if _, unmarked := q.sender.unmarked.Load(d.ID); unmarked {
				continue
			}
			sent = true
			if !q.deliver(ctx, d) {
				return false
			}
		}
		if len(due) < batch || !sent {
			break
		}
	}
	if q.held.behind == 0 && !q.held.isDue(time.Now()) {
		return true
	}
	return q.retryHeld(ctx, false)
}

// deliver sends a delivery, gives it up, or sets it aside. It returns false when
// ctx or the gateway ended before.
func (q *queue) deliver(ctx context.Context, d conversation.Delivery) bool {
	if !q.sendParts(ctx, d) {
		return false
	}
	q.ended = max(q.ended, d.ID)
	return true
}

// sendParts tries a delivery until it is sent, given up, or set aside. Before
// each attempt it retries those that are set aside, which come first when the
// platform works again. A reply that the gateway itself can't prepare is given
// up, and the chat is told.
func (q *queue) sendParts(ctx context.Context, d conversation.Delivery) bool {
	var failing time.Time // since when
	for {
		if q.held.isDue(time.Now()) && !q.retryHeld(ctx, true) {
			return false
		}
		taken := len(d.Sent)
		done, err := q.try(ctx, &d, !failing.IsZero())
		if done || err == nil {
			return done
		}
		if isLocal(err) {
			return q.giveUp(ctx, d, err)
		}
		if failing.IsZero() || len(d.Sent) > taken {
			failing = time.Now()
		}
		again, ok := q.failed(ctx, &d, failing, err)
		if !again {
			return ok
		}
	}
}

// try sends the parts that the platform has not taken yet, marks each, and then
// the delivery. troubled says that a failed attempt of the next part is noted in
// the store. The error says why a part was not taken. Without one, done is false
// when ctx ended before the mark.
func (q *queue) try(ctx context.Context, d *conversation.Delivery, troubled bool) (done bool, err error) {
	var parts []channels.Part
	err = recovered(func() error {
		parts = q.sender.sink.Split(*d)
		return nil
	})
	if err != nil {
		return false, err
	}
	for len(d.Sent) < len(parts) {
		var id string
		err := recovered(func() (err error) {
			id, err = q.sendPart(ctx, *d, parts[len(d.Sent)])
			return err
		})
		if err != nil {
			return false, err
		}
		d.Sent = append(d.Sent, id)
		if len(d.Sent) < len(parts) && !q.markPart(ctx, *d, troubled) {
			return false, nil
		}
		troubled = false
	}
	if !q.markOver(ctx, d.ID, "mark a reply as sent", func(ctx context.Context) error { return q.sender.outbox.Mark(ctx, *d, conversation.MarkSent, "") }) {
		return false, nil
	}
	q.sender.report(activity.Sent, *d)
	return true, nil
}

// markPart marks a part that is not the last one as sent, and clears the failed
// attempt that is noted.
func (q *queue) markPart(ctx context.Context, d conversation.Delivery, troubled bool) bool {
	if troubled && !q.mark(ctx, "note the end of a trouble", func(ctx context.Context) error { return q.sender.outbox.Mark(ctx, d, conversation.MarkTried, "") }) {
		return false
	}
	return q.mark(ctx, "mark a part as sent", func(ctx context.Context) error { return q.sender.outbox.Mark(ctx, d, conversation.MarkPart, "") })
}

// mark stores what the platform has taken. It goes on for a moment after ctx
// ends, since what is not marked is sent again.
func (q *queue) mark(ctx context.Context, what string, do func(context.Context) error) bool {
	ctx, cancel := channels.WithGrace(ctx)
	defer cancel()
	return q.persist(ctx, what, func() error { return do(ctx) }) == nil
}

// markOver is mark for a delivery that is over, or set aside. Where the store is
// damaged, the sender remembers it until the next start.
func (q *queue) markOver(ctx context.Context, id int64, what string, do func(context.Context) error) bool {
	return q.mark(ctx, what, func(ctx context.Context) error {
		err := do(ctx)
		if conversation.IsDamaged(err) {
			q.sender.unmarked.Store(id, true)
		}
		return err
	})
}

// persist retries a use of the store until it succeeds. It returns nil where the
// file of the store is damaged: the queue goes on without it.
func (q *queue) persist(ctx context.Context, what string, do func() error) error {
	err := retry.Persist(ctx, q.sender.log, what+" of "+string(q.key), do)
	if conversation.IsDamaged(err) {
		return nil
	}
	return err
}
