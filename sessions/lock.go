package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/internal/clock"
)

// lockRetry is how often the lock of a session is tried that another process has:
// a gateway releases it a moment after its last answer.
const lockRetry = 100 * time.Millisecond

// WithLock returns an Exclusive that holds the session's lock, for a process that runs
// no loops.
func WithLock(store *conversation.Store) Exclusive {
	return func(ctx context.Context, key conversation.Key, do func(context.Context) error) error {
		for {
			release, err := store.Lock(key)
			if err == nil {
				defer release()
				return do(ctx)
			}
			var locked *conversation.LockedError
			if !errors.As(err, &locked) {
				return err
			}
			if clock.Sleep(ctx, lockRetry) != nil {
				return fmt.Errorf("%w: a chat is open there, or an answer or its delivery is under way; try again when it has ended", locked)
			}
		}
	}
}
