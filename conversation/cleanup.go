package conversation

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"parley/conversation/internal/db"
)

// Rules say how long the store keeps what is over.
type Rules struct {
	Expiration time.Duration // as Config.SessionExpiration
	Retention  time.Duration // as Config.Retention
	Redelivery time.Duration // the longest after which a platform may deliver a message again
	TrustClock bool          // go by the machine's clock, whatever the database knows of the time
}

// Inbound that is settled and deliveries that have ended are kept for a week,
// so that what a platform delivers again is known, and longer where it may come
// later than that: then for a day more than Redelivery, for clocks that differ.
const (
	keepDone      = 7 * 24 * time.Hour
	keepDelivered = 24 * time.Hour
)

// Outdated is a conversation that the rules no longer keep.
type Outdated struct {
	Conversation
	Bytes int64 // of its words and pictures: roughly what its deletion frees
}

// Cleaned is what a cleanup has deleted, or would delete.
type Cleaned struct {
	Conversations int64
	Messages      int64 // of these conversations
	Bytes         int64 // of these messages
	Inbound       int64 // settled, and too old to come again
	Deliveries    int64 // sent or failed
	Pairings      int64 // whose codes have expired
}

// Clean deletes what the rules no longer keep: conversations whose last use is
// longer ago than the retention, if they are archived or have rested for so long
// that the next message would begin another; settled inbound, ended deliveries
// and expired pairing codes. What waits, is due or was let in always stays. each
// is told of every conversation, between two writes.
//
// However much there is, it goes in small steps with pauses, and other writes
// come between them. The words of the conversations leave the disk with Sweep,
// or by and by. When ctx ends, what is done is done, and the rest is for the
// next time.
func (s *Store) Clean(ctx context.Context, rules Rules, each func(Outdated)) (Cleaned, error) {
	return s.clean(ctx, &cleaner{Store: s, deletes: true, each: each}, rules)
}

// WouldClean says what Clean would delete now, and deletes nothing.
func (s *Store) WouldClean(ctx context.Context, rules Rules, each func(Outdated)) (Cleaned, error) {
	return s.clean(ctx, &cleaner{Store: s, each: each}, rules)
}

// Sweep does at once what the store would otherwise do in the background, and
// returns when nothing of it is left: deleted words are gone from the disk then. An
// error of IsDamaged says that some could not be reached.
func (s *Store) Sweep(ctx context.Context) error {
	stuck, err := s.db.FinishChores(ctx)
	if err != nil || len(stuck) == 0 && len(s.sweeps.left()) == 0 {
		return err
	}
	return fmt.Errorf("not everything that was deleted is gone from the disk: %w", db.Explain(db.ErrDamaged))
}

// CatchUp is Sweep for a process that has the database alone: it lets nobody go
// first. told is told how far the search index has come, in messages.
func (s *Store) CatchUp(ctx context.Context, told func(done, total int64)) error {
	var total int64
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM messages`).Scan(&total); err != nil {
		return db.Explain(err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var left int64
		done := false
		err := s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			for range catchUpSteps {
				if done, err = s.db.StepChore(ctx, tx); done || err != nil {
					return err
				}
			}
			return tx.QueryRowContext(ctx, `SELECT count(*) FROM messages WHERE id > (
				SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts')`).Scan(&left)
		})
		if err != nil || done {
			return err
		}
		told(total-left, total)
	}
}

const catchUpSteps = 50 // of CatchUp in one transaction

// cleaner is one cleanup.
type cleaner struct {
	*Store
	deletes bool // else it only counts
	each    func(Outdated)
	cleaned Cleaned

	at          time.Time
	lastUsed    int64 // of a conversation that is kept, milliseconds; 0: all are
	restingFrom int64 // an active conversation that was last used before this is over, milliseconds; 0: none is
	doneBefore  int64 // rows that were done before this go, milliseconds
}

func (s *Store) clean(ctx context.Context, c *cleaner, rules Rules) (Cleaned, error) {
	at, err := s.present(ctx, rules, c.deletes)
	if err != nil {
		return Cleaned{}, err
	}
	c.judge(rules, at)
	err = c.run(ctx)
	return c.cleaned, db.Explain(err)
}

// present returns the time by which the rules judge.
func (s *Store) present(ctx context.Context, rules Rules, deletes bool) (time.Time, error) {
	switch {
	case rules.TrustClock && deletes:
		if err := s.TrustClock(ctx); err != nil {
			return time.Time{}, err
		}
		return s.now(), nil
	case rules.TrustClock:
		return s.now(), nil
	case deletes:
		clock, err := s.LookAtClock(ctx)
		return clock.Trusted, err
	}
	clock, err := s.Clock(ctx)
	return clock.Trusted, err
}

// judge says what the rules mean at a moment.
func (c *cleaner) judge(rules Rules, at time.Time) {
	c.at = at
	if rules.Retention > 0 {
		c.lastUsed = db.Millis(c.at.Add(-rules.Retention))
	}
	if rules.Expiration > 0 {
		c.restingFrom = db.Millis(c.at.Add(-rules.Expiration))
	}
	c.doneBefore = db.Millis(c.at.Add(-max(keepDone, rules.Redelivery+keepDelivered)))
}

func (c *cleaner) run(ctx context.Context) error {
	if c.lastUsed > 0 {
		if err := c.conversations(ctx); err != nil {
			return err
		}
	}
	if err := c.rows(ctx, inboxRows, &c.cleaned.Inbound); err != nil {
		return err
	}
	if err := c.rows(ctx, outboxRows, &c.cleaned.Deliveries); err != nil {
		return err
	}
	var forgotten int64 // ids by which a program could repeat itself: nobody asks how many
	if err := c.rows(ctx, appendRows, &forgotten); err != nil {
		return err
	}
	if err := c.uploads(ctx); err != nil {
		return err
	}
	return c.pairings(ctx)
}

// pause lets other writes go first while something is deleted.
func (c *cleaner) pause(ctx context.Context) error {
	if !c.deletes {
		return ctx.Err()
	}
	return db.Pause(ctx)
}

// pairings deletes the codes that have expired: at most maxAsking of a channel.
func (c *cleaner) pairings(ctx context.Context) error {
	const expired = `FROM pairings WHERE code IS NOT NULL AND expires_at <= ?`
	if !c.deletes {
		return c.db.QueryRowContext(ctx, `SELECT count(*) `+expired, db.Millis(c.at)).Scan(&c.cleaned.Pairings)
	}
	return c.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `DELETE `+expired, db.Millis(c.at))
		if err == nil {
			c.cleaned.Pairings, err = result.RowsAffected()
		}
		return err
	})
}
