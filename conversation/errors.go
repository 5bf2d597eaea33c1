package conversation

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"parley/conversation/internal/db"
)

// ErrMoved says that the database was taken away from its place. Nothing is stored
// meanwhile.
var ErrMoved = db.ErrMoved

// DamageAdvice tells the operator what to do about a damaged database.
const DamageAdvice = db.DamageAdvice

// IsDamaged reports whether an error says that the database is damaged, so that
// trying again can't help.
func IsDamaged(err error) bool { return db.IsDamaged(err) }

// IsTemporary reports whether the next try may succeed where a read failed: the
// database is busy or closed, or the process lacks memory or file handles.
func IsTemporary(err error) bool { return db.IsTemporary(err) }

// Sentence returns an error as a sentence.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

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
