package conversation_test

import (
	"context"
	"time"

	"parley/conversation"
	"parley/conversation/pairing"
	"parley/conversation/retention"
	"parley/conversation/usage"
)

// init gives the tests of package conversation the subjects that import it.
func init() {
	conversation.AskPairing = func(ctx context.Context, s *conversation.Store, of conversation.Account, user string) (string, error) {
		p, _, err := pairing.New(s).Ask(ctx, of, user, "Name of "+user)
		return p.Code, err
	}
	conversation.ApprovePairing = func(ctx context.Context, s *conversation.Store, code string) error {
		_, err := pairing.New(s).Approve(ctx, code)
		return err
	}
	conversation.IsPaired = func(ctx context.Context, s *conversation.Store, of conversation.Account, user string) (bool, error) {
		return pairing.New(s).Has(ctx, of, user)
	}
	conversation.RunsByChannel = func(ctx context.Context, s *conversation.Store) (map[string]int64, error) {
		stats, err := usage.New(s).Stats(ctx, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.Hour)
		runs := map[string]int64{}
		for _, u := range stats.Models {
			runs[u.Channel] = u.Runs
		}
		return runs, err
	}
	conversation.NewCleaner = func(s *conversation.Store) func(ctx context.Context, expiration, keep time.Duration) error {
		r := retention.New(s)
		return func(ctx context.Context, expiration, keep time.Duration) error {
			_, err := r.Clean(ctx, retention.Rules{Expiration: expiration, Retention: keep}, func(retention.Outdated) {})
			return err
		}
	}
}
