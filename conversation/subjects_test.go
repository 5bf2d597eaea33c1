package conversation

import (
	"context"
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
)

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
