package budgets

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Paces limit how many messages of each person are answered in a minute. All processes on a database count
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

// PerMinute returns how many messages of a person are answered in a minute.
func (p *Paces) PerMinute() int { return p.perMinute }

// Take returns which of the messages with these IDs, all of a person, may be answered now, and how long the others wait at least.
// Messages are counted together as soon as all of them may be answered, or as many as in a whole minute. Each is counted once,
// however often it is asked for.
func (p *Paces) Take(ctx context.Context, person string, messages ...int64) (now []int64, wait time.Duration, err error) {
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		now, wait, err = p.take(ctx, tx, person, messages)
		return err
	})
	return now, wait, err
}

// take stores when the person may have a minute's messages answered again: each takes its part of a minute.
func (p *Paces) take(ctx context.Context, tx db.Tx, person string, messages []int64) (taken []int64, wait time.Duration, err error) {
	waiting, err := db.Column[int64](tx.QueryContext(ctx, `SELECT id FROM inbox WHERE had_turn = 0 AND id IN (SELECT value FROM `+db.EachID("?")+` ids) ORDER BY id`, db.IDs(messages)))
	if err != nil || len(waiting) == 0 {
		return messages, 0, err
	}
	taken = slices.DeleteFunc(slices.Clone(messages), func(id int64) bool { return slices.Contains(waiting, id) })
	now := p.now()
	if err := lockPerson(ctx, tx, person, now); err != nil {
		return nil, 0, err
	}
	full, err := fullAt(ctx, tx, person, now)
	if err != nil {
		return nil, 0, err
	}
	together := waiting[:min(len(waiting), p.perMinute)]
	full = full.Add(time.Duration(len(together)) * (time.Minute / time.Duration(p.perMinute)))
	if wait := full.Sub(now) - time.Minute; wait > 0 {
		return taken, wait, nil
	}
	return append(taken, together...), 0, count(ctx, tx, person, together, now, full)
}

// lockPerson keeps other nodes from counting the messages of a person until the transaction ends. SQLite has one writer.
func lockPerson(ctx context.Context, tx db.Tx, person string, now time.Time) error {
	_, err := tx.ExecContext(ctx, db.Either(`SELECT ?1, ?2`,
		`INSERT INTO paces (person, full_at) VALUES (?1, ?2) ON CONFLICT (person) DO UPDATE SET full_at = paces.full_at`), person, db.Millis(now))
	return err
}

// count stores that messages of a person are answered.
func count(ctx context.Context, tx db.Tx, person string, messages []int64, now, full time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE inbox SET had_turn = 1 WHERE id IN (SELECT value FROM `+db.EachID("?")+` ids)`, db.IDs(messages))
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

// fullAt returns when a minute's messages of a person may be answered again, now or within a minute: a clock that was
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
