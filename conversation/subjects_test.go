package conversation

import (
	"context"
	"sync"
	"testing"
	"time"
)

// The packages of the subjects import this one, so that its own tests can't import them. Package conversation_test can,
// and sets these functions.
var (
	AskPairing     func(ctx context.Context, s *Store, of Account, user string) (code string, err error)
	ApprovePairing func(ctx context.Context, s *Store, code string) error
	IsPaired       func(ctx context.Context, s *Store, of Account, user string) (bool, error)

	RunsByChannel func(ctx context.Context, s *Store) (map[string]int64, error) // of the last hour

	// NewCleaner returns the retention of a store: Clean deletes conversations that have rested for expiration, and
	// those that are over, once they are older than retention.
	NewCleaner func(s *Store) (clean func(ctx context.Context, expiration, retention time.Duration) error)
)

// cleaners are the retention of each store, by *Store: it must know the time from the beginning.
var cleaners sync.Map

// cleanable has the retention of a store count the time from now on.
func cleanable(s *Store) *Store {
	cleaners.Store(s, NewCleaner(s))
	return s
}

func mustClean(t testing.TB, s *Store, expiration, retention time.Duration) {
	t.Helper()
	clean, known := cleaners.Load(s)
	if !known {
		t.Fatal("the store was not made cleanable")
	}
	if err := clean.(func(context.Context, time.Duration, time.Duration) error)(t.Context(), expiration, retention); err != nil {
		t.Fatal(err)
	}
}

const day = 24 * time.Hour

// mustPair pairs a person with a bot.
func mustPair(t *testing.T, s *Store, of Account, user string) {
	t.Helper()
	code, err := AskPairing(t.Context(), s, of, user)
	if err == nil {
		err = ApprovePairing(t.Context(), s, code)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openAt opens a store whose time is what the clock points to.
func openAt(t *testing.T, clock *time.Time) *Store {
	t.Helper()
	return mustOpen(t, WithClock(func() time.Time { return *clock }))
}

func count(t testing.TB, s *Store, query string) (n int64) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
