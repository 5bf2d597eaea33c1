// Package delivery sends the replies of the outbox: a queue for each session,
// with what to do when a platform does not take one.
package delivery

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/activity"
	"parley/channels"
	"parley/conversation"
)

// Outbox is what delivery needs of the store.
type Outbox interface {
	Lock(key conversation.Key) (release func(), err error)
	Due(ctx context.Context, scope conversation.Scope) ([]conversation.Key, error)
	Deliveries(ctx context.Context, q conversation.DeliveryQuery) ([]conversation.Delivery, error)
	Mark(ctx context.Context, d conversation.Delivery, mark conversation.Mark, reason string) error
	ReadTranscript(ctx context.Context, t conversation.Transcript) (c conversation.Conversation, place string, seen iter.Seq2[conversation.Record, error], err error)
}

// Sender delivers the replies of one channel: a queue for each session, so
// that a chat which is rate limited stalls itself alone. Replies of a session
// go out in order; one that the platform refuses for good is marked and logged,
// and the next one goes on. One that the platform fails on while it works
// otherwise is set aside after patience, and tried again beside the later ones.
type Sender struct {
	sink     channels.Sink
	outbox   Outbox
	log      *slog.Logger
	outcome  func(activity.Outcome) // nil: nobody asks
	patience time.Duration          // how long a reply may hold up its session
	by       conversation.Account   // whose replies it sends, once it runs

	wake   chan wake
	idle   chan *queue
	done   chan struct{}
	making chan struct{} // one for each transcript that is in memory
	read   atomic.Int64  // the newest delivery that a queue has read from the store

	unmarked sync.Map // by ID, deliveries that are over although the store, which is damaged there, can't say so
}

// New makes the sender of a channel; Run starts it.
func New(sink channels.Sink, outbox Outbox, log *slog.Logger, options ...Option) *Sender {
	s := &Sender{
		sink:     sink,
		outbox:   outbox,
		log:      log.With("channel", sink.Name()),
		patience: patience,
		wake:     make(chan wake, 1024),
		idle:     make(chan *queue),
		done:     make(chan struct{}),
		making:   make(chan struct{}, maxMaking),
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// wake says that a session has something to be sent.
type wake struct {
	key   conversation.Key
	reply *conversation.Delivery // nil: the store knows
}

// Wake says that a run has left replies in the store, in the order given.
func (s *Sender) Wake(replies ...conversation.Delivery) {
	for i := range replies {
		select {
		case s.wake <- wake{replies[i].Key, &replies[i]}:
		case <-s.done:
		}
	}
}

// Look says that a session has something due that only the store knows of, such
// as a reply that is to be sent again.
func (s *Sender) Look(key conversation.Key) {
	select {
	case s.wake <- wake{key: key}:
	case <-s.done:
	}
}

// Run sends what an earlier process left, then what Wake tells of. It ends when
// ctx does, or, once flush is closed, as soon as nothing is under way: a reply
// that waits to be tried again is not waited for. What is not sent by then stays
// in the outbox for the next start.
func (s *Sender) Run(ctx context.Context, scope conversation.Scope, flush <-chan struct{}) error {
	defer close(s.done)
	s.by = scope.By()
	var working sync.WaitGroup
	defer working.Wait()
	queues := map[conversation.Key]*queue{}
	left := map[conversation.Key]bool{} // sessions whose replies wait for the next start
	held := heldSessions{sender: s, sessions: map[conversation.Key]*heldSession{}}
	defer held.stop()
	post := func(w wake) {
		if left[w.key] {
			return
		}
		q := queues[w.key]
		if q == nil {
			q = newQueue(s, w.key, held.of(w.key), flush)
			queues[w.key] = q
			working.Go(func() { q.run(ctx) })
		}
		q.put(w.reply)
	}
	for _, key := range s.leftovers(ctx, scope) {
		post(wake{key: key})
	}
	end := flush // queues are handed flush itself, which this loop forgets once it is closed
	flushing := false
	for !flushing || len(queues) > 0 || len(s.wake) > 0 {
		select {
		case w := <-s.wake:
			if w.reply != nil && w.reply.ID <= s.read.Load() {
				w.reply = nil // a queue may have found it in the store already, and sent it
			}
			post(w)
		case q := <-s.idle:
			ended := q.abandoned || len(q.ready) == 0
			if ended {
				delete(queues, q.key)
				held.settle(q.key, q.held)
			}
			if q.abandoned {
				left[q.key] = true
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
	if len(left) > 0 {
		s.log.Info("replies are left for the next start", "sessions", len(left))
	}
	return nil
}

// leftovers are the sessions with replies that an earlier process left.
func (s *Sender) leftovers(ctx context.Context, scope conversation.Scope) (keys []conversation.Key) {
	err := conversation.Persist(ctx, s.log, "read which replies were left unsent", func() (err error) {
		keys, err = s.outbox.Due(ctx, scope)
		return err
	})
	if err == nil && len(keys) > 0 {
		s.log.Info("sending replies that were left unsent", "sessions", len(keys))
	}
	return keys
}

// queue sends the replies of one session.
type queue struct {
	*Sender
	key       conversation.Key
	held      *heldSession
	flush     <-chan struct{} // closed when the gateway ends
	ready     chan struct{}   // there is something to send
	end       chan bool       // the answer to idle: the sender has forgotten the queue, or there is work
	ended     int64           // the newest delivery that was brought to its end, or set aside
	abandoned bool            // the gateway ends, and what is not sent waits for the next start; read it after idle

	mu      sync.Mutex
	replies []conversation.Delivery // as committed, not yet sent
	look    bool                    // there may be others in the store
}

const (
	batch  = 16               // deliveries that are read at once
	linger = time.Second / 10 // how long a queue without work stays: a goroutine for each reply costs more
)

func newQueue(s *Sender, key conversation.Key, held *heldSession, flush <-chan struct{}) *queue {
	return &queue{Sender: s, key: key, held: held, flush: flush, ready: make(chan struct{}, 1), end: make(chan bool, 1)}
}

// put adds a reply; nil stands for those in the store.
func (q *queue) put(reply *conversation.Delivery) {
	q.mu.Lock()
	if reply == nil || q.look {
		q.replies, q.look = nil, true
	} else {
		q.replies = append(q.replies, *reply)
	}
	q.mu.Unlock()
	q.note()
}

// note says that there is something to send.
func (q *queue) note() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (q *queue) take() (replies []conversation.Delivery, look bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	replies, look = q.replies, q.look
	q.replies, q.look = nil, false
	return replies, look
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
		if q.askToEnd(ctx) {
			return
		}
		idle.Reset(0)
	}
}

// lock takes the session. While another process has it, it waits until ctx or
// the gateway ends: what the session needs is that one's to do meanwhile.
func (q *queue) lock(ctx context.Context) (unlock func(), err error) {
	if unlock, err = q.outbox.Lock(q.key); err == nil {
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
	unlock, _, err = conversation.WaitLock(ctx, q.log, q.outbox.Lock, q.key)
	if err == nil {
		q.put(nil) // the other process may have sent some
	}
	return unlock, err
}

// abandon leaves what is not sent to the next start, unless ctx ended, when the
// sender asks no more.
func (q *queue) abandon(ctx context.Context) {
	q.abandoned = true
	q.askToEnd(ctx)
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

// askToEnd reports whether the sender has forgotten the queue.
func (q *queue) askToEnd(ctx context.Context) bool {
	select {
	case q.idle <- q:
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

// send reports false when ctx or the gateway ended before all was sent.
func (q *queue) send(ctx context.Context) bool {
	replies, look := q.take()
	if look {
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

// hasRead moves the sender's mark up to a delivery; many queues do at once.
func (s *Sender) hasRead(id int64) {
	for newest := s.read.Load(); newest < id; newest = s.read.Load() {
		if s.read.CompareAndSwap(newest, id) {
			return
		}
	}
}

// sendDue sends what the store holds. It reports false when ctx or the gateway
// ended before all was sent.
func (q *queue) sendDue(ctx context.Context) bool {
	q.held.waiting = true // perhaps
	for {
		var due []conversation.Delivery
		err := q.persist(ctx, "read the unsent replies", func() (err error) {
			due, err = q.outbox.Deliveries(ctx, conversation.DeliveryQuery{Key: q.key, State: conversation.DueNow, Limit: batch, Accounts: []conversation.Account{q.by}})
			return err
		})
		if err != nil {
			return false
		}
		sent := false
		for _, d := range due {
			q.hasRead(d.ID)
			if _, unmarked := q.unmarked.Load(d.ID); unmarked {
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

// deliver brings a delivery to its end, or sets it aside.
func (q *queue) deliver(ctx context.Context, d conversation.Delivery) bool {
	if !q.sendParts(ctx, d) {
		return false
	}
	q.ended = max(q.ended, d.ID)
	return true
}

// sendParts tries a delivery until it is ended or set aside. Before each try those
// that are set aside have theirs: when the platform works again, they come first.
// A reply that the gateway itself can't prepare ends in words in its chat.
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
// the delivery. troubled says that a trouble with the next part was noted. The
// error is why a part was not taken; without one, done is false when ctx ended
// before the mark.
func (q *queue) try(ctx context.Context, d *conversation.Delivery, troubled bool) (done bool, err error) {
	var parts []channels.Part
	err = guard(func() error {
		parts = q.sink.Split(*d)
		return nil
	})
	if err != nil {
		return false, err
	}
	for len(d.Sent) < len(parts) {
		var id string
		err := guard(func() (err error) {
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
	if !q.markOver(ctx, d.ID, "mark a reply as sent", func(ctx context.Context) error { return q.outbox.Mark(ctx, *d, conversation.MarkSent, "") }) {
		return false, nil
	}
	q.tell(activity.Sent, *d)
	return true, nil
}

// markPart stores that the platform has taken a part which is not the last one,
// and that a trouble which was noted is over.
func (q *queue) markPart(ctx context.Context, d conversation.Delivery, troubled bool) bool {
	if troubled && !q.mark(ctx, "note the end of a trouble", func(ctx context.Context) error { return q.outbox.Mark(ctx, d, conversation.MarkTried, "") }) {
		return false
	}
	return q.mark(ctx, "mark a part as sent", func(ctx context.Context) error { return q.outbox.Mark(ctx, d, conversation.MarkPart, "") })
}

// mark stores what the platform has taken. It outlasts Run's context, since
// what is not marked is sent again.
func (q *queue) mark(ctx context.Context, what string, do func(context.Context) error) bool {
	ctx, cancel := channels.WithGrace(ctx)
	defer cancel()
	return q.persist(ctx, what, func() error { return do(ctx) }) == nil
}

// markOver is mark for a delivery that is over, or set aside. Where the store is
// damaged, that is known until the next start.
func (q *queue) markOver(ctx context.Context, id int64, what string, do func(context.Context) error) bool {
	return q.mark(ctx, what, func(ctx context.Context) error {
		err := do(ctx)
		if conversation.IsDamaged(err) {
			q.unmarked.Store(id, true)
		}
		return err
	})
}

// persist returns nil for what can't be read or stored because the file of the
// store is damaged there: the queue goes on without it.
func (q *queue) persist(ctx context.Context, what string, do func() error) error {
	err := conversation.Persist(ctx, q.log, what+" of "+string(q.key), do)
	if conversation.IsDamaged(err) {
		return nil
	}
	return err
}
