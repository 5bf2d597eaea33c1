// Package retry repeats what uses a store until it succeeds: a full disk or a locked file
// must not lose what is finished already, and a session that another process works is
// taken over when that process ends.
package retry

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"parley/conversation"
)

// Persist calls do, which uses the store, until it succeeds or ctx ends. It does not
// repeat an error of conversation.IsDamaged, which it returns: what stands on a damaged
// page can't be read at any other try. The first failure and the recovery are logged.
func Persist(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	return persist(ctx, log, what, conversation.IsDamaged, do)
}

// PersistAll is Persist for messages that a platform is told were taken only when they are
// stored. It goes on trying also while nothing can be stored because the file is damaged.
func PersistAll(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	return persist(ctx, log, what, func(error) bool { return false }, do)
}

// FullWait is the longest wait between two attempts to store something while the disk is full. Whatever waits is
// stored soon after somebody has made room.
const FullWait = time.Second

func persist(ctx context.Context, log *slog.Logger, what string, isFinal func(error) bool, do func() error) error {
	err := do()
	if err == nil || ctx.Err() != nil {
		return err
	}
	if isFinal(err) {
		log.Error("could not "+what, "error", err)
		return err
	}
	log.Error("could not "+what+"; trying again until it works", "error", err)
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = 50*time.Millisecond, 5*time.Second
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if conversation.IsDiskFull(err) {
			waits.MaxInterval = FullWait
		}
		if err != nil && isFinal(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0))
	if err == nil {
		log.Info("could " + what + " again")
	}
	return err
}

// lockRetry is the time between two attempts to lock a session that another process has.
const lockRetry = 2 * time.Second

// Lock takes a session's lock by calling lock, and waits while another process has it. It
// reports whether it had to wait. The error is that of ctx.
func Lock(ctx context.Context, log *slog.Logger, lock func(conversation.Key) (func(), error), key conversation.Key) (release func(), waited bool, err error) {
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
