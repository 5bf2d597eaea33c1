package conversation

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Persist calls do, which uses the store, until it succeeds or ctx ends: a full
// disk or a locked file must not lose what is finished already. Only what the file
// can't give because it is damaged is not tried again: then the error is one of
// IsDamaged. The first failure and the recovery are logged, not each try.
func Persist(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	return persist(ctx, log, what, IsDamaged, do)
}

// PersistAll is Persist for what must not be given up: messages that a platform
// is told only then that they were taken. It goes on trying also while nothing can
// be stored because the file is damaged.
func PersistAll(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	return persist(ctx, log, what, func(error) bool { return false }, do)
}

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
