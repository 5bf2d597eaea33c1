package conversation

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/mattn/go-sqlite3"
)

// IsTemporary reports whether an error of a read may be gone at the next try: the
// database is busy or closed, or the process lacks memory or file handles.
func IsTemporary(err error) bool {
	if errors.Is(err, errClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var failed sqlite3.Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code {
	case sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrCantOpen, sqlite3.ErrNomem, sqlite3.ErrInterrupt:
		return true
	}
	return false
}

// Persist calls do, which uses the store, until it succeeds or ctx ends: a full
// disk or a locked file must not lose what is finished already. The first
// failure and the recovery are logged, not each try.
func Persist(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	err := do()
	if err == nil || ctx.Err() != nil {
		return err
	}
	log.Error("could not "+what+"; trying again until it works", "error", err)
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = 50*time.Millisecond, 5*time.Second
	_, err = backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, do() },
		backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0))
	if err == nil {
		log.Info("could " + what + " again")
	}
	return err
}
