package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/approvals"
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
				return fmt.Errorf("%w: %s", locked, whyLocked(context.WithoutCancel(ctx), store, key))
			}
		}
	}
}

// whyLocked says what another process may be doing in a session whose lock it holds, and what helps. A call of a tool that its server
// keeps open to ask people something keeps the lock until there is an answer.
func whyLocked(ctx context.Context, store *conversation.Store, key conversation.Key) string {
	open, err := approvals.New(store).Open(ctx, key)
	if err == nil {
		for _, q := range open {
			if q.Process != "" {
				return fmt.Sprintf("the tool server %s waits for an answer there (question %d); answer it or send /stop in the chat, or use the console, "+
					"which ends the question", q.Form.Server, q.ID)
			}
		}
	}
	return "a chat is open there, or an answer or its delivery is under way; try again when it has ended"
}
