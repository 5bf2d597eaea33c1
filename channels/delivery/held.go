package delivery

import (
	"context"
	"errors"
	"time"

	"parley/channels"
	"parley/conversation"
)

// heldSession tracks the replies of a session that are set aside. The session's queue
// owns it while there is one, otherwise the sender's goroutine.
type heldSession struct {
	waiting bool          // the session may have replies that are set aside
	newest  time.Time     // when the newest of these replies was set aside
	tried   time.Time     // when these replies were tried last
	took    time.Duration // how long the last round of attempts took
	behind  int64         // ID of the delivery after which an interrupted round goes on; 0: no round was interrupted
	timer   *time.Timer   // starts the next round; nil: no round is planned
}

const (
	minHeldWait = time.Minute
	maxHeldWait = 15 * time.Minute

	// betweenReplies is the shortest time between two rounds of attempts while other
	// replies wait. A round that took long is followed by betweenHanging times as
	// long without one, so that a platform that hangs over these replies does not
	// delay all others.
	betweenReplies = 15 * time.Second
	betweenHanging = 4

	// maxHeldFailures is how many of them may fail in a round while another reply waits.
	maxHeldFailures = 3
)

// add notes that a reply was set aside.
func (h *heldSession) add(now time.Time) { h.waiting, h.newest, h.tried = true, now, now }

// isDue reports whether they have to be retried before another reply goes out.
func (h *heldSession) isDue(now time.Time) bool {
	return h.waiting && now.Sub(h.tried) >= max(betweenReplies, betweenHanging*h.took)
}

// wait returns how long they are left alone: from a minute to a quarter of an
// hour, longer the older they are, and only a moment where a round of attempts
// was interrupted.
func (h *heldSession) wait(now time.Time) time.Duration {
	if h.behind > 0 {
		return linger
	}
	return min(max(minHeldWait, now.Sub(h.newest)/4), maxHeldWait)
}

// heldSessions are the sessions with replies that are set aside, by key. The
// sender's goroutine owns them.
type heldSessions struct {
	sender   *Sender
	sessions map[conversation.Key]*heldSession
}

// of returns the state of a session, which its queue owns from then on.
func (hs *heldSessions) of(key conversation.Key) *heldSession {
	h := hs.sessions[key]
	if h == nil {
		return &heldSession{}
	}
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	return h
}

// settle takes over the state of a session whose queue has ended, and enqueues the session again
// when its replies have to be retried.
func (hs *heldSessions) settle(key conversation.Key, h *heldSession) {
	if !h.waiting {
		delete(hs.sessions, key)
		return
	}
	hs.sessions[key] = h
	h.timer = time.AfterFunc(h.wait(time.Now()), func() { hs.sender.EnqueueDue(key) })
}

// stop stops the timers: what is set aside waits for the next start.
func (hs *heldSessions) stop() {
	for _, h := range hs.sessions {
		if h.timer != nil {
			h.timer.Stop()
		}
	}
}

// retryHeld tries each reply that is set aside once, in order, as long as the platform takes
// other replies and the gateway does not end. If another reply waits (awaited), the round is
// interrupted after a few failures and continued later. It returns false when ctx ended.
func (q *queue) retryHeld(ctx context.Context, awaited bool) bool {
	if q.isEnding() {
		return true
	}
	h, began := q.held, time.Now()
	defer func() { h.tried, h.took = time.Now(), time.Since(began) }()
	h.waiting = h.behind > 0
	after := int64(0)
	if !awaited {
		after, h.behind = h.behind, 0
	}
	for failures := 0; ; {
		held, err := q.readHeld(ctx, after)
		if err != nil {
			return false
		}
		for _, d := range held {
			after = d.ID
			again, healthy, ok := q.retryOne(ctx, d)
			if !ok {
				return false
			}
			if again {
				failures++
				h.waiting = true
				if h.newest.Before(d.HeldAt) {
					h.newest = d.HeldAt
				}
			}
			awaited = awaited || len(q.ready) > 0
			switch {
			case !healthy || q.isEnding():
				h.waiting, h.behind = true, 0
				return true
			case awaited && failures >= maxHeldFailures:
				h.waiting, h.behind = true, max(h.behind, after)
				return true
			}
		}
		if len(held) < batch {
			h.behind = 0
			return true
		}
	}
}

func (q *queue) readHeld(ctx context.Context, after int64) (held []conversation.Delivery, err error) {
	err = q.persist(ctx, "read the replies that are set aside", func() (err error) {
		held, err = q.sender.outbox.Deliveries(ctx, conversation.DeliveryQuery{Key: q.key, Held: true, After: after, Limit: batch, Accounts: []conversation.Account{q.sender.account}})
		return err
	})
	return held, err
}

// retryOne tries a reply that is set aside. again reports whether it still is, healthy
// whether the platform takes other replies. ok is false when ctx ended.
func (q *queue) retryOne(ctx context.Context, d conversation.Delivery) (again, healthy, ok bool) {
	done, err := q.try(ctx, &d, true)
	if done {
		q.sender.log.Debug("reply delivered after it was set aside", "session", d.Key, "delivery", d.ID, "attempts", d.Attempts, "since", d.HeldAt)
		return false, true, true
	}
	if err == nil || ctx.Err() != nil {
		return false, false, false
	}
	if isLocal(err) {
		return false, true, q.giveUp(ctx, d, err)
	}
	d.Attempts++
	if reason := final(d.HeldAt, err); reason != nil {
		return false, true, q.markFailed(ctx, d, d.HeldAt, reason)
	}
	q.noteFailure(d, d.HeldAt, true, err)
	var stuck *channels.StuckError
	healthy = errors.As(err, &stuck)
	return true, healthy, q.mark(ctx, "note a failed try", func(ctx context.Context) error {
		return q.sender.outbox.Mark(ctx, d, conversation.MarkHeld, err.Error())
	})
}
