package channels

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
)

// StuckError is why a platform does not take one part although it works
// otherwise. An adapter that can tell puts it into the Err of a SendError.
type StuckError struct {
	Works time.Time // since when the platform has answered everything else
	Err   error
}

func (e *StuckError) Error() string { return e.Err.Error() }
func (e *StuckError) Unwrap() error { return e.Err }

// stuckLimit is how long a reply may hold up its session that the platform
// fails on while it works otherwise: longer than platforms take to mend
// themselves, and short enough for the talk to go on the same day. A platform
// that can't be reached, or asks to wait, is no reason to drop a reply, however
// long that lasts.
const stuckLimit = 6 * time.Hour

// failed waits before the next try, or ends a delivery that will never be
// taken. since is when its first try failed. ok is false when ctx ended
// meanwhile.
func (q *queue) failed(ctx context.Context, d *conversation.Delivery, since time.Time, err error) (again, ok bool) {
	if ctx.Err() != nil {
		return false, false
	}
	d.Attempts++
	log := q.log.With("session", d.Key, "delivery", d.ID, "attempts", d.Attempts, "since", since.Round(time.Second))
	if reason := final(since, err); reason != nil {
		log.Error("reply not delivered; its text stays in the history", "error", reason)
		q.tell(Failed, *d)
		return false, q.mark(ctx, "mark a reply as failed", func(ctx context.Context) error {
			return q.outbox.MarkFailed(ctx, *d, reason.Error())
		})
	}
	q.tell(Retried, *d)
	wait := pause(d.Attempts, err)
	if isPowerOfTwo(d.Attempts) { // log and store tell of a long trouble ever more rarely
		log.Warn("reply not taken, trying again", "wait", wait, "error", err)
		if d.Attempts > 1 && !q.mark(ctx, "note a failed try", func(ctx context.Context) error { return q.outbox.MarkTried(ctx, *d, err.Error()) }) {
			return false, false
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, true
	case <-ctx.Done():
		return false, false
	}
}

// final is why a delivery is not tried again, nil when it is.
func final(since time.Time, err error) error {
	var refused *SendError
	if errors.As(err, &refused) && refused.Permanent || isLocal(err) {
		return err
	}
	var stuck *StuckError
	if !errors.As(err, &stuck) {
		return nil
	}
	if stuck.Works.After(since) {
		since = stuck.Works
	}
	if time.Since(since) < stuckLimit {
		return nil
	}
	return fmt.Errorf("given up after %s in which the platform took everything else: %w", stuckLimit, err)
}

// pause is what the platform asks for, or doubles with each try, from half a
// second to a minute.
func pause(attempts int, err error) time.Duration {
	var refused *SendError
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		return refused.RetryAfter
	}
	return min(500*time.Millisecond<<min(attempts-1, 10), time.Minute)
}

func isPowerOfTwo(n int) bool { return n&(n-1) == 0 }
