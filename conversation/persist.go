package conversation

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

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
