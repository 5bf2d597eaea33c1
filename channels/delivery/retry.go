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
	// patience is how long a reply may hold up its session that the platform fails
	// on while it works otherwise: six tries or so, which is longer than the hiccups
	// of platforms last.
	patience = 30 * time.Second

	// stuckLimit is how long such a reply is tried in all: longer than platforms
	// take to mend themselves, and on the same day. A platform that can't be reached,
	// or asks to wait, is no reason to drop a reply, however long that lasts.
	stuckLimit = 6 * time.Hour

	// drainWait is the longest wait for another try that the end of the gateway
	// waits for: the first few tries of a reply, and the usual rate limits.
	drainWait = 3 * time.Second
)

// failed waits before the next try, sets a delivery aside, or ends one that will
// never be taken. since is when its first try failed. ok is false when ctx or the
// gateway ended meanwhile.
func (q *queue) failed(ctx context.Context, d *conversation.Delivery, since time.Time, err error) (again, ok bool) {
	if ctx.Err() != nil {
		return false, false
	}
	d.Attempts++
	log := q.log.With("session", d.Key, "delivery", d.ID, "attempts", d.Attempts, "since", since.Round(time.Second))
	if reason := final(since, err); reason != nil {
		return false, q.markFailed(ctx, log, *d, reason)
	}
	q.tell(activity.Retried, *d)
	if stuckFor(since, err) >= q.patience {
		log.Warn("reply set aside, later ones go on; trying it again beside them", "error", err)
		q.held.add(time.Now())
		return false, q.markOver(ctx, d.ID, "set a reply aside", func(ctx context.Context) error { return q.outbox.Mark(ctx, *d, conversation.MarkHeld, err.Error()) })
	}
	wait := pause(d.Attempts, err)
	if isPowerOfTwo(d.Attempts) { // log and store tell of a long trouble ever more rarely
		log.Warn("reply not taken, trying again", "wait", wait, "error", err)
		if d.Attempts > 1 && !q.mark(ctx, "note a failed try", func(ctx context.Context) error { return q.outbox.Mark(ctx, *d, conversation.MarkTried, err.Error()) }) {
			return false, false
		}
	}
	ok = q.wait(ctx, wait)
	return ok, ok
}

// wait waits for the next try. It reports false when ctx ended, or when the
// gateway ends and the wait is a long one.
func (q *queue) wait(ctx context.Context, d time.Duration) bool {
	flush := q.flush
	if d <= drainWait {
		flush = nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-flush:
		return false
	case <-ctx.Done():
		return false
	}
}

// markFailed ends a delivery that the platform will never take.
func (q *queue) markFailed(ctx context.Context, log *slog.Logger, d conversation.Delivery, reason error) bool {
	log.Error("reply not delivered; its text stays in the history", "error", reason)
	q.tell(activity.Failed, d)
	return q.markOver(ctx, d.ID, "mark a reply as failed", func(ctx context.Context) error {
		return q.outbox.Mark(ctx, d, conversation.MarkFailed, reason.Error())
	})
}

// final is why a delivery is not tried again, nil when it is.
func final(since time.Time, err error) error {
	var refused *channels.SendError
	if errors.As(err, &refused) && refused.Permanent || isLocal(err) {
		return err
	}
	if stuckFor(since, err) < stuckLimit {
		return nil
	}
	return fmt.Errorf("given up after %s in which the platform took everything else: %w", stuckLimit, err)
}

// stuckFor returns for how long the platform has failed on a reply, tried since
// then, while it worked otherwise; -1 when it does not.
func stuckFor(since time.Time, err error) time.Duration {
	var stuck *channels.StuckError
	if !errors.As(err, &stuck) {
		return -1
	}
	if stuck.Works.After(since) {
		since = stuck.Works
	}
	return time.Since(since)
}

// pause is what the platform asks for, or doubles with each try, from half a
// second to a minute.
func pause(attempts int, err error) time.Duration {
	var refused *channels.SendError
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		return refused.RetryAfter
	}
	return min(500*time.Millisecond<<min(attempts-1, 10), time.Minute)
}

func isPowerOfTwo(n int) bool { return n&(n-1) == 0 }
