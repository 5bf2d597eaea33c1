package retention

import (
	"context"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/storetest"
)

const (
	chat  = storetest.Chat
	day   = 24 * time.Hour
	month = 720 * time.Hour
)

// store is a store with its retention.
type store struct {
	*conversation.Store
	*Retention
}

func mustOpen(t testing.TB, config ...conversation.Config) store {
	t.Helper()
	s := storetest.New(t, config...)
	return store{s, New(s)}
}

// mustOpenAged opens a store with a clock that the test sets.
func mustOpenAged(t testing.TB) (store, *storetest.Clock) {
	t.Helper()
	s, clock := storetest.NewAged(t)
	return store{s, New(s)}, clock
}

func count(t testing.TB, s store, query string) int64 {
	t.Helper()
	return storetest.Count(t, s.Store, `SELECT count(*) FROM `+query)
}

// step does one step of the chores. It returns how many of the rows that a query counts this deleted, and
// whether nothing is left to do.
func step(t testing.TB, s store, query string) (gone int64, done bool) {
	t.Helper()
	err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) (err error) {
		var before, left int64
		if err := tx.QueryRowContext(ctx, query).Scan(&before); err != nil {
			return err
		}
		if done, err = s.DB().StepChore(ctx, tx); err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, query).Scan(&left)
		gone = before - left
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return gone, done
}
