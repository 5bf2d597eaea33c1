package channels

import (
	"context"
	"errors"
	"fmt"
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
	Deliveries(ctx context.Context, key conversation.Key, limit int) ([]conversation.Delivery, error)
	MarkPart(ctx context.Context, d conversation.Delivery) error
	MarkSent(ctx context.Context, d conversation.Delivery) error
	MarkFailed(ctx context.Context, d conversation.Delivery, reason string) error
}

// Sender delivers the replies of one channel: a queue for each session, so
// that a chat which is rate limited stalls itself alone. Replies of a session
// go out in order; one that the platform refuses for good is marked and logged,
// and the next one goes on.
type Sender struct {
	channel Channel
	outbox  Outbox
	log     *slog.Logger

	wake chan wake
	idle chan *queue
	done chan struct{}
	read atomic.Int64 // the newest delivery that a queue has read from the store
}

// NewSender makes the sender of a channel; Run starts it.
func NewSender(channel Channel, outbox Outbox, log *slog.Logger) *Sender {
	return &Sender{
		channel: channel,
		outbox:  outbox,
		log:     log.With("channel", channel.Name()),
		wake:    make(chan wake, 1024),
		idle:    make(chan *queue),
		done:    make(chan struct{}),
	}
}

// wake says that a session has something to be sent.
type wake struct {
	key  conversation.Key
	only *conversation.Delivery // it and nothing before it, if the session has no queue; nil: see the store
}

// Wake says that a run has left replies in the store, in the order given.
func (s *Sender) Wake(replies ...conversation.Delivery) {
	for i := range replies {
		s.post(wake{replies[i].Key, &replies[i]})
	}
}

func (s *Sender) post(w wake) {
	select {
	case s.wake <- w:
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
	begin := func(w wake) {
		q := queues[w.key]
		if q == nil {
			q = &queue{Sender: s, key: w.key, mail: make(chan struct{}, 1), end: make(chan struct{})}
			queues[w.key] = q
			working.Go(func() { q.run(ctx, w.only) })
			if w.only != nil {
				return
			}
		}
		q.note()
	}
	for _, key := range s.leftovers(ctx, scope) {
		begin(wake{key: key})
	}
	flushing := false
	for !flushing || len(queues) > 0 || len(s.wake) > 0 {
		select {
		case w := <-s.wake:
			if w.only != nil && w.only.ID <= s.read.Load() {
				w.only = nil // a queue may have found it in the store already, and sent it
			}
			begin(w)
		case q := <-s.idle:
			if len(q.mail) == 0 {
				delete(queues, q.key)
				close(q.end)
			}
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

// queue sends the replies of one session, until none is due.
type queue struct {
	*Sender
	key  conversation.Key
	mail chan struct{} // there are new deliveries
	end  chan struct{} // the sender has forgotten the queue
}

// batch is how many deliveries are read at once.
const batch = 16

// note says that there are new deliveries in the store.
func (q *queue) note() {
	select {
	case q.mail <- struct{}{}:
	default:
	}
}

func (q *queue) run(ctx context.Context, first *conversation.Delivery) {
	unlock, waited, err := conversation.WaitLock(ctx, q.log, q.outbox.Lock, q.key)
	if err != nil {
		return
	}
	defer unlock()
	switch {
	case waited:
		q.note() // the other process may have sent it
	case first != nil && !q.deliver(ctx, *first):
		return
	}
	for {
		select {
		case <-q.mail:
			if !q.sendDue(ctx) {
				return
			}
			continue
		default:
		}
		select {
		case q.idle <- q:
		case <-ctx.Done():
			return
		}
		select {
		case <-q.end:
			return
		case <-q.mail:
			q.note() // work came first
		case <-ctx.Done():
			return
		}
	}
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
			due, err = q.outbox.Deliveries(ctx, q.key, batch)
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

// deliver sends the parts that the platform has not taken yet, and marks each.
func (q *queue) deliver(ctx context.Context, d conversation.Delivery) bool {
	parts := q.channel.Split(d)
	var failing time.Time // since when
	for len(d.Sent) < len(parts) {
		id, err := q.channel.Send(ctx, d, parts[len(d.Sent)])
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
		if len(d.Sent) < len(parts) && !q.mark(ctx, "mark a part as sent", func(ctx context.Context) error { return q.outbox.MarkPart(ctx, d) }) {
			return false
		}
	}
	return q.mark(ctx, "mark a reply as sent", func(ctx context.Context) error { return q.outbox.MarkSent(ctx, d) })
}

// failed waits before the next try, or ends a delivery that will never be
// taken. ok is false when ctx ended meanwhile.
func (q *queue) failed(ctx context.Context, d *conversation.Delivery, since time.Time, err error) (again, ok bool) {
	if ctx.Err() != nil {
		return false, false
	}
	var refused *SendError
	errors.As(err, &refused)
	if time.Since(since) > giveUp {
		refused = &SendError{Permanent: true}
		err = fmt.Errorf("given up after %s: %w", giveUp, err)
	}
	if refused != nil && refused.Permanent {
		q.log.Error("reply refused for good", "session", d.Key, "delivery", d.ID, "error", err)
		return false, q.mark(ctx, "mark a reply as failed", func(ctx context.Context) error {
			return q.outbox.MarkFailed(ctx, *d, err.Error())
		})
	}
	wait := q.pause(d.Attempts)
	if refused != nil && refused.RetryAfter > 0 {
		wait = refused.RetryAfter
	}
	if d.Attempts == 0 {
		q.log.Warn("reply not taken, trying again", "session", d.Key, "delivery", d.ID, "wait", wait, "error", err)
	}
	d.Attempts++
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, true
	case <-ctx.Done():
		return false, false
	}
}

// giveUp is how long a reply is tried, as long as mail servers try (RFC 5321,
// section 4.5.4.1: four to five days).
const giveUp = 5 * 24 * time.Hour

// pause doubles with each try, from half a second to a minute.
func (q *queue) pause(attempts int) time.Duration {
	return min(500*time.Millisecond<<min(attempts, 10), time.Minute)
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
