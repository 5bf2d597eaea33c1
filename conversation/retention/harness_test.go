package retention

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"parley/conversation"
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

// mustOpenAged opens a store that lives by the calendar.
func mustOpenAged(t testing.TB) (store, *calendar) {
	t.Helper()
	clock := &calendar{time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	return mustOpen(t, conversation.Config{Now: clock.now}), clock
}

// calendar is a clock that is set by hand.
type calendar struct{ time.Time }

func (c *calendar) now() time.Time { return c.Time }

func (c *calendar) pass(d time.Duration) { c.Time = c.Add(d) }

// sayNow is a message that is written at this moment.
func sayNow(clock *calendar, key conversation.Key, id int, text string) conversation.Inbound {
	in := storetest.Say(key, id, text)
	in.At = clock.Time
	return in
}

func exchangeNow(t testing.TB, s store, clock *calendar, key conversation.Key, id int, text string) {
	t.Helper()
	storetest.Accept(t, s.Store, sayNow(clock, key, id, text))
	storetest.Commit(t, s.Store, storetest.Answered(key, s.Expire(storetest.Begin(t, s.Store, key, 1000), conversation.Limits{Rest: month}), "answer to "+text))
}

func count(t testing.TB, s store, query string) int64 {
	t.Helper()
	return storetest.Count(t, s.Store, `SELECT count(*) FROM `+query)
}

// step does one step of the chores. It says how many rows, by a query that counts
// them, that has deleted, and whether nothing is left to do.
func step(t testing.TB, s store, query string) (gone int64, done bool) {
	t.Helper()
	err := s.DB().Write(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
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
