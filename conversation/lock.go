package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"parley/conversation/internal/db"
)

// LockedError says that another process works a session.
type LockedError struct {
	Key Key
	PID int // 0 when it can't be told, for example in another container
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("the session %q is in use by %s", e.Key, who)
}

// Lock takes a session for this process until release is called or the
// process dies. It does not wait: a session that another process has gives
// *LockedError. The same process may take it again; release is called once for
// each time.
func (s *Store) Lock(key Key) (release func(), err error) {
	release, err = s.db.Lock("session " + string(key))
	var held *db.HeldError
	if errors.As(err, &held) {
		return nil, &LockedError{Key: key, PID: held.PID}
	}
	return release, err
}

// lockRetry is how often a session that another process has is tried again.
const lockRetry = 2 * time.Second

// WaitLock takes a session's lock, which lock does, and waits while another
// process has it: what the session needs is that one's to do, and if it dies,
// this one takes over. waited says that it had to.
func WaitLock(ctx context.Context, log *slog.Logger, lock func(Key) (func(), error), key Key) (release func(), waited bool, err error) {
	retry := time.NewTimer(lockRetry)
	defer retry.Stop()
	for {
		release, err := lock(key)
		if err == nil {
			return release, waited, nil
		}
		if !waited {
			log.Warn("session is worked elsewhere; waiting for it", "session", key, "error", err)
		}
		waited = true
		retry.Reset(lockRetry)
		select {
		case <-retry.C:
		case <-ctx.Done():
			return nil, waited, ctx.Err()
		}
	}
}
