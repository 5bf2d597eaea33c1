package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"parley/activity"
	"parley/channels"
	"parley/conversation"
)

const (
	// patience is how long a reply is retried before it is set aside, when the platform
	// fails on it but takes everything else: about six attempts, longer than most
	// faults of platforms last.
	patience = 30 * time.Second

	// stuckLimit is how long such a reply is retried in all: longer than platforms
	// take to recover, and on the same day. A reply is not dropped because its
	// platform can't be reached or asks to wait, however long that lasts.
	stuckLimit = 6 * time.Hour

	// drainWait is the longest wait for another attempt that an ending gateway still
	// waits for: it covers the first few attempts and the usual rate limits.
	drainWait = 3 * time.Second
)

// failed handles a failed attempt: it waits before the next one, sets the
// delivery aside, or gives it up. since is the time of the first failed attempt. ok
// is false when ctx or the gateway ended meanwhile.
func (q *queue) failed(ctx context.Context, d *conversation.Delivery, since time.Time, err error) (again, ok bool) {
	if ctx.Err() != nil {
		return false, false
	}
	d.Attempts++
	if reason := final(since, err); reason != nil {
		return false, q.markFailed(ctx, *d, since, reason)
	}
	isStuck := stuckFor(since, err) >= q.sender.patience
	q.noteFailure(*d, since, isStuck, err)
	if isStuck {
		q.held.add(time.Now())
		return false, q.markOver(ctx, d.ID, "set a reply aside", func(ctx context.Context) error {
			return q.sender.outbox.Mark(ctx, *d, conversation.MarkHeld, err.Error())
		})
	}
	wait := pause(d.Attempts, err)
	if refused := (*channels.SendError)(nil); errors.As(err, &refused) && refused.RetryAfter > 0 {
		until := time.Now().Add(wait)
		q.sender.limit.Store(&until)
	}
	if d.Attempts > 1 && isPowerOfTwo(d.Attempts) { // a long trouble is stored ever more rarely
		if !q.mark(ctx, "note a failed try", func(ctx context.Context) error {
			return q.sender.outbox.Mark(ctx, *d, conversation.MarkTried, err.Error())
		}) {
			return false, false
		}
	}
	ok = q.wait(ctx, wait)
	return ok, ok
}

// noteFailure reports a failed attempt that is followed by another one, and logs it.
func (q *queue) noteFailure(d conversation.Delivery, since time.Time, isStuck bool, err error) {
	q.sender.report(activity.Retried, d)
	q.sender.outage.Failed(string(q.key), channels.Trouble{Level: slog.LevelWarn, Text: "reply not taken, trying again"},
		"session", d.Key, "delivery", d.ID, "attempts", d.Attempts, "since", since.Round(time.Second), "set_aside", isStuck, "error", err)
}

// wait waits before the next attempt. It returns false when ctx ended, or when
// the wait is a long one and the gateway ends or hands its work over.
func (q *queue) wait(ctx context.Context, d time.Duration) bool {
	flush := q.flush
	if d <= drainWait {
		flush = nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		handsOver, change := q.sender.outbox.Node().HandsOver()
		if handsOver && d > drainWait {
			return false
		}
		select {
		case <-change:
		case <-timer.C:
			return true
		case <-flush:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// markFailed ends a delivery that the platform will never take. The chat is told, unless it takes
// nothing at all. It returns false when ctx or the gateway ended before that.
func (q *queue) markFailed(ctx context.Context, d conversation.Delivery, since time.Time, reason error) bool {
	if !isClosed(reason) && !q.sendNotice(ctx, d, notTaken) {
		return false
	}
	q.sender.log.Error("reply not delivered; its text stays in the history", "session", d.Key, "delivery", d.ID, "attempts", d.Attempts,
		"since", since.Round(time.Second), "error", reason)
	q.sender.outage.Left(string(q.key))
	q.sender.report(activity.Failed, d)
	return q.markOver(ctx, d.ID, "mark a reply as failed", func(ctx context.Context) error {
		return q.sender.outbox.Mark(ctx, d, conversation.MarkFailed, reason.Error())
	})
}

// notTaken is what the chat is told in place of a reply that its platform does not take.
const notTaken = "⚠️ A reply could not be sent to this chat. The details are in the gateway's log."

// isRefused reports whether the platform refuses a part for good.
func isRefused(err error) bool {
	var refused *channels.SendError
	return errors.As(err, &refused) && refused.Permanent
}

// isClosed reports whether a platform has refused a part because the place takes nothing at all.
func isClosed(err error) bool {
	var refused *channels.SendError
	return errors.As(err, &refused) && refused.Closed
}

// final returns why a delivery is not retried, and nil when it is.
func final(since time.Time, err error) error {
	if isRefused(err) || isLocal(err) {
		return err
	}
	if stuckFor(since, err) < stuckLimit {
		return nil
	}
	return fmt.Errorf("given up after %s in which the platform took everything else: %w", stuckLimit, err)
}

// stuckFor returns for how long the platform has refused a reply, whose first attempt failed at
// since, while it took everything else. It returns -1 if the platform fails on other messages, too.
func stuckFor(since time.Time, err error) time.Duration {
	var stuck *channels.StuckError
	if !errors.As(err, &stuck) {
		return -1
	}
	if stuck.HealthySince.After(since) {
		since = stuck.HealthySince
	}
	return time.Since(since)
}

// pause returns the wait before the next attempt: what the platform asks for,
// else half a second, doubled with each attempt up to a minute.
func pause(attempts int, err error) time.Duration {
	var refused *channels.SendError
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		return refused.RetryAfter
	}
	return min(500*time.Millisecond<<min(attempts-1, 10), time.Minute)
}

// isPowerOfTwo reports whether n, which is positive, is a power of two.
func isPowerOfTwo(n int) bool { return n&(n-1) == 0 }
