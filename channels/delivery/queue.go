package delivery

import (
	"context"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/retry"
)

// queue sends the replies of one session, in one goroutine, which ends a moment
// after the last reply.
type queue struct {
	sender    *Sender
	key       conversation.Key
	held      *heldSession
	running   context.Context // ends when the gateway waits no longer for replies
	flush     <-chan struct{} // closed when the gateway ends
	ready     chan struct{}   // signals that there is something to send
	end       chan bool       // the sender's answer to idle: true if it has removed the queue, false if there is work
	ended     int64           // the newest delivery that was brought to its end, or set aside
	apart     int64           // the newest delivery whose pictures the platform refused as an album
	abandoned bool            // the gateway ends, and what is not sent waits for the next start; read it after idle
	elsewhere bool            // another node of a cluster sends what is not sent; read it after idle

	mu      sync.Mutex
	replies []conversation.Delivery // replies as they were committed that are not sent yet
	inStore bool                    // further replies have to be read from the store
}

const (
	batch  = 16               // deliveries that are read at once
	linger = time.Second / 10 // how long a queue without work stays: a goroutine for each reply costs more
)

func newQueue(s *Sender, key conversation.Key, held *heldSession, flush <-chan struct{}) *queue {
	return &queue{sender: s, key: key, held: held, flush: flush, ready: make(chan struct{}, 1), end: make(chan bool, 1)}
}

// put adds a reply; nil stands for all that are due in the store.
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
	q.running = ctx
	unlock, err := q.lock(ctx)
	if err != nil {
		q.abandon(ctx)
		return
	}
	if unlock == nil {
		q.leave(ctx)
		return
	}
	defer unlock()
	node := q.sender.outbox.Node()
	held, cancel := node.While(ctx)
	defer cancel()
	lost := node != nil && !node.Owns(string(q.key)) // the node was declared dead a moment ago, and may have joined anew
	if lost || q.serve(ctx, held) {
		q.leave(ctx)
	}
}

// serve sends what is put into the queue until nothing is left, or until ctx or the gateway ends. It
// reports whether this process has lost the session, as when held has ended, or gives it to another one.
func (q *queue) serve(ctx, held context.Context) (lost bool) {
	idle := time.NewTimer(linger)
	defer idle.Stop()
	flush := q.flush
	for {
		select {
		case <-q.ready:
			if !q.send(held) {
				if held.Err() != nil || q.handsOver() {
					return ctx.Err() == nil
				}
				q.abandon(ctx)
				return false
			}
			idle.Reset(linger)
			continue
		case <-idle.C:
		case <-flush:
			flush = nil // from now on without lingering
		case <-held.Done():
			return ctx.Err() == nil
		}
		if q.tryToEnd(ctx) {
			return false
		}
		idle.Reset(0)
	}
}

// lock takes the session's lock. While another process has it, that process sends
// the replies; lock waits until ctx or the gateway ends. It returns neither a lock nor an error when
// another node of a cluster has it, or is to have it.
func (q *queue) lock(ctx context.Context) (unlock func(), err error) {
	if q.handsOver() && !q.sender.outbox.Node().Owns(string(q.key)) {
		return nil, nil
	}
	if unlock, err = q.sender.outbox.Lock(q.key); err == nil {
		if q.sender.outbox.Node() != nil {
			q.put(nil) // replies that a dead node has left come first
		}
		return unlock, nil
	}
	if q.sender.outbox.Node() != nil {
		return nil, nil
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

// leave leaves unsent replies to the node that has the session, or to this node's next sweep.
func (q *queue) leave(ctx context.Context) {
	q.elsewhere, q.held.waiting = true, false
	q.sender.outage.Left(string(q.key))
	q.tryToEnd(ctx)
}

// abandon leaves unsent replies to the next start.
func (q *queue) abandon(ctx context.Context) {
	q.abandoned = true
	q.tryToEnd(ctx)
}

// handsOver reports whether another node of a cluster is to send what this one would have to wait for.
func (q *queue) handsOver() bool {
	is, _ := q.sender.outbox.Node().HandsOver()
	return is
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

// sendDue sends what is due in the store. It returns false when ctx or the
// gateway ended before all was sent.
func (q *queue) sendDue(ctx context.Context) bool {
	q.held.waiting = true // there may be some, which retryHeld finds out
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
