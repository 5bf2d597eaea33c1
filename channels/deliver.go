package channels

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation"
)

// Outbox is what delivery needs of the store.
type Outbox interface {
	Lock(key conversation.Key) (release func(), err error)
	Due(ctx context.Context, scope conversation.Scope) ([]conversation.Key, error)
	Deliveries(ctx context.Context, key conversation.Key, limit int, channels ...string) ([]conversation.Delivery, error)
	MarkPart(ctx context.Context, d conversation.Delivery) error
	MarkTried(ctx context.Context, d conversation.Delivery, reason string) error
	MarkSent(ctx context.Context, d conversation.Delivery) error
	MarkFailed(ctx context.Context, d conversation.Delivery, reason string) error
	ReadTranscript(ctx context.Context, t conversation.Transcript) (c conversation.Conversation, place string, seen iter.Seq2[conversation.Record, error], err error)
}

// Sender delivers the replies of one channel: a queue for each session, so
// that a chat which is rate limited stalls itself alone. Replies of a session
// go out in order; one that the platform refuses for good is marked and logged,
// and the next one goes on.
type Sender struct {
	channel Channel
	outbox  Outbox
	log     *slog.Logger
	outcome func(Outcome) // nil: nobody asks

	wake   chan wake
	idle   chan *queue
	done   chan struct{}
	making chan struct{} // one for each transcript that is in memory
	read   atomic.Int64  // the newest delivery that a queue has read from the store
}

// NewSender makes the sender of a channel; Run starts it.
func NewSender(channel Channel, outbox Outbox, log *slog.Logger, options ...SenderOption) *Sender {
	s := &Sender{
		channel: channel,
		outbox:  outbox,
		log:     log.With("channel", channel.Name()),
		wake:    make(chan wake, 1024),
		idle:    make(chan *queue),
		done:    make(chan struct{}),
		making:  make(chan struct{}, maxMaking),
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
// ctx does, or, once flush is closed, as soon as nothing is under way. What is
// not sent by then stays in the outbox for the next start.
func (s *Sender) Run(ctx context.Context, scope conversation.Scope, flush <-chan struct{}) error {
	defer close(s.done)
	var working sync.WaitGroup
	defer working.Wait()
	queues := map[conversation.Key]*queue{}
	post := func(w wake) {
		q := queues[w.key]
		if q == nil {
			q = newQueue(s, w.key, flush)
			queues[w.key] = q
			working.Go(func() { q.run(ctx) })
		}
		q.put(w.reply)
	}
	for _, key := range s.leftovers(ctx, scope) {
		post(wake{key: key})
	}
	flushing := false
	for !flushing || len(queues) > 0 || len(s.wake) > 0 {
		select {
		case w := <-s.wake:
			if w.reply != nil && w.reply.ID <= s.read.Load() {
				w.reply = nil // a queue may have found it in the store already, and sent it
			}
			post(w)
		case q := <-s.idle:
			end := len(q.ready) == 0
			if end {
				delete(queues, q.key)
			}
			if len(queues) == 0 {
				queues = map[conversation.Key]*queue{} // a map that was large stays large
			}
			q.end <- end
		case <-flush:
			flush, flushing = nil, true
		case <-ctx.Done():
			return nil
		}
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
	key   conversation.Key
	flush <-chan struct{} // closed when the gateway ends
	ready chan struct{}   // there is something to send
	end   chan bool       // the answer to idle: the sender has forgotten the queue, or there is work
	ended int64           // the newest delivery that was brought to its end

	mu      sync.Mutex
	replies []conversation.Delivery // as committed, not yet sent
	look    bool                    // there may be others in the store
}

const (
	batch  = 16               // deliveries that are read at once
	linger = time.Second / 10 // how long a queue without work stays: a goroutine for each reply costs more
)

func newQueue(s *Sender, key conversation.Key, flush <-chan struct{}) *queue {
	return &queue{Sender: s, key: key, flush: flush, ready: make(chan struct{}, 1), end: make(chan bool, 1)}
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
	unlock, waited, err := conversation.WaitLock(ctx, q.log, q.outbox.Lock, q.key)
	if err != nil {
		return
	}
	defer unlock()
	if waited {
		q.put(nil) // the other process may have sent some
	}
	idle := time.NewTimer(linger)
	defer idle.Stop()
	flush := q.flush
	for {
		select {
		case <-q.ready:
			if !q.send(ctx) {
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

// send reports false when ctx ended before all was sent.
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

// sendDue reports false when ctx ended before all was sent.
func (q *queue) sendDue(ctx context.Context) bool {
	for {
		var due []conversation.Delivery
		err := q.persist(ctx, "read the unsent replies", func() (err error) {
			due, err = q.outbox.Deliveries(ctx, q.key, batch, q.channel.Name())
			return err
		})
		if err != nil {
			return false
		}
		for _, d := range due {
			q.hasRead(d.ID)
			if !q.deliver(ctx, d) {
				return false
			}
		}
		if len(due) < batch {
			return true
		}
	}
}

// deliver brings a delivery to its end.
func (q *queue) deliver(ctx context.Context, d conversation.Delivery) bool {
	if !q.sendParts(ctx, d) {
		return false
	}
	q.ended = max(q.ended, d.ID)
	return true
}

// sendParts sends the parts that the platform has not taken yet, and marks each.
// A reply that the gateway itself can't prepare ends in words in its chat.
func (q *queue) sendParts(ctx context.Context, d conversation.Delivery) bool {
	var parts []Part
	err := guard(func() error {
		parts = q.channel.Split(d)
		return nil
	})
	if err != nil {
		return q.giveUp(ctx, d, err)
	}
	var failing time.Time // since when
	for len(d.Sent) < len(parts) {
		var id string
		err := guard(func() (err error) {
			id, err = q.sendPart(ctx, d, parts[len(d.Sent)])
			return err
		})
		if err != nil && isLocal(err) {
			return q.giveUp(ctx, d, err)
		}
		if err != nil {
			if failing.IsZero() {
				failing = time.Now()
			}
			again, ok := q.failed(ctx, &d, failing, err)
			if !again {
				return ok
			}
			continue
		}
		d.Sent = append(d.Sent, id)
		if len(d.Sent) < len(parts) && !q.markPart(ctx, d, !failing.IsZero()) {
			return false
		}
		failing = time.Time{}
	}
	if !q.mark(ctx, "mark a reply as sent", func(ctx context.Context) error { return q.outbox.MarkSent(ctx, d) }) {
		return false
	}
	q.tell(Sent, d)
	return true
}

// markPart stores that the platform has taken a part which is not the last one,
// and that a trouble which was noted is over.
func (q *queue) markPart(ctx context.Context, d conversation.Delivery, troubled bool) bool {
	if troubled && !q.mark(ctx, "note the end of a trouble", func(ctx context.Context) error { return q.outbox.MarkTried(ctx, d, "") }) {
		return false
	}
	return q.mark(ctx, "mark a part as sent", func(ctx context.Context) error { return q.outbox.MarkPart(ctx, d) })
}

// mark stores what the platform has taken. It outlasts Run's context, since
// what is not marked is sent again.
func (q *queue) mark(ctx context.Context, what string, do func(context.Context) error) bool {
	ctx, cancel := Outlast(ctx)
	defer cancel()
	return q.persist(ctx, what, func() error { return do(ctx) }) == nil
}

func (q *queue) persist(ctx context.Context, what string, do func() error) error {
	return conversation.Persist(ctx, q.log, what+" of "+string(q.key), do)
}

// grace is how much longer than everything else a step may take that would be
// done twice if it were given up halfway.
const grace = 5 * time.Second

// Outlast gives a context that ends a grace of 5 s after ctx does: for a
// request that a platform may have taken already, and for its mark.
func Outlast(ctx context.Context) (longer context.Context, cancel context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, end) })
	return longer, func() {
		stop()
		end()
	}
}
