package budgets

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Paces limit how many answers each person gets in a minute. All processes on a database count
// together. It is safe for concurrent use.
type Paces struct {
	db        *db.DB
	now       func() time.Time
	perMinute int
}

// OpenPaces returns the paces of a store, nil if they are not limited.
func OpenPaces(store *conversation.Store, c Config) *Paces {
	if c.MessagesPerMinute == 0 {
		return nil
	}
	return &Paces{db: store.DB(), now: store.Now, perMinute: c.MessagesPerMinute}
}

// PerMinute returns how many answers a person gets in a minute.
func (p *Paces) PerMinute() int { return p.perMinute }

// Take takes one of the answers of a person for the message with this ID, and returns 0; or how
// long it is until there is one. A message takes one answer, however often it asks.
func (p *Paces) Take(ctx context.Context, person string, message int64) (wait time.Duration, err error) {
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		wait, err = p.take(ctx, tx, person, message)
		return err
	})
	return wait, err
}

// take counts the answers by when the person has all of them again: each takes its part of a
// minute to come back.
func (p *Paces) take(ctx context.Context, tx db.Tx, person string, message int64) (time.Duration, error) {
	var had bool
	err := tx.QueryRowContext(ctx, `SELECT had_turn FROM inbox WHERE id = ?`, message).Scan(&had)
	if had || errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	now := p.now()
	if err := lockPerson(ctx, tx, person, now); err != nil {
		return 0, err
	}
	full, err := fullAt(ctx, tx, person, now)
	if err != nil {
		return 0, err
	}
	full = full.Add(time.Minute / time.Duration(p.perMinute))
	if wait := full.Sub(now) - time.Minute; wait > 0 {
		return wait, nil
	}
	return 0, count(ctx, tx, person, message, now, full)
}

// lockPerson keeps other nodes from counting the answers of a person until the transaction ends. SQLite has one writer.
func lockPerson(ctx context.Context, tx db.Tx, person string, now time.Time) error {
	_, err := tx.ExecContext(ctx, db.Either(`SELECT ?1, ?2`,
		`INSERT INTO paces (person, full_at) VALUES (?1, ?2) ON CONFLICT (person) DO UPDATE SET full_at = paces.full_at`), person, db.Millis(now))
	return err
}

// count stores that a person has got an answer for a message.
func count(ctx context.Context, tx db.Tx, person string, message int64, now, full time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE inbox SET had_turn = 1 WHERE id = ?`, message)
	if err == nil {
		_, err = tx.ExecContext(ctx, `
			INSERT INTO paces (person, full_at) VALUES (?, ?) ON CONFLICT (person) DO UPDATE SET full_at = excluded.full_at`,
			person, db.Millis(full))
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM paces WHERE full_at <= ?`, db.Millis(now))
	}
	return err
}

// fullAt returns when a person has all answers again, now or within a minute: a clock that was
// put back must not keep anybody waiting for longer.
func fullAt(ctx context.Context, tx db.Tx, person string, now time.Time) (time.Time, error) {
	var at int64
	err := tx.QueryRowContext(ctx, `SELECT full_at FROM paces WHERE person = ?`, person).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return now, nil
	}
	stored, latest := db.FromMillis(at), now.Add(time.Minute)
	switch {
	case stored.Before(now):
		return now, err
	case stored.After(latest):
		return latest, err
	}
	return stored, err
}
