// Package retention deletes what the store no longer keeps: conversations that are older
// than the operator wants, settled inbound, and replies that were sent or given up. It
// judges age by a clock of its own, so that a machine whose clock is set to the future does
// not delete too much.
package retention

import (
	"context"
	"time"

	"parley/conversation"
	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/internal/uploads"
)

// Retention deletes what a store no longer keeps.
type Retention struct {
	db     *db.DB
	now    func() time.Time
	uptime func() time.Duration // the running time of the process, by the monotonic clock
	clock  clockWatch
}

// Option changes how New makes a Retention.
type Option func(*Retention)

// WithUptime makes the Retention call up for the running time of the process. By default it
// is the time since New, by the store's clock.
func WithUptime(up func() time.Duration) Option {
	return func(r *Retention) { r.uptime = up }
}

// New returns the retention of a store.
func New(store *conversation.Store, options ...Option) *Retention {
	r := &Retention{db: store.DB(), now: store.Now}
	for _, option := range options {
		option(r)
	}
	if began := r.now(); r.uptime == nil {
		r.uptime = func() time.Duration { return r.now().Sub(began) }
	}
	return r
}

// Rules set how long the store keeps conversations and other rows.
type Rules struct {
	Expiration time.Duration // how long a conversation may go unused before it expires; 0 = for ever
	Retention  time.Duration // how long an archived or expired conversation is kept after its last use; 0 = for ever
	Redelivery time.Duration // how long after a message a platform may deliver it again, at most
	TrustClock bool          // judge age by the machine's clock alone
}

// Settled inbound and ended deliveries are kept for a week, so that a message is recognized
// if its platform delivers it again. If the platform may do so later, they are kept for
// Redelivery and another day, since clocks differ.
const (
	keepDone         = 7 * 24 * time.Hour
	redeliveryMargin = 24 * time.Hour
)

// Outdated is a conversation that the rules no longer keep.
type Outdated struct {
	conversation.Conversation
	Bytes int64 // the size of its texts, pictures and files: roughly what its deletion frees

	row int64 // the id of its row
}

// Cleaned counts what a cleanup has deleted, or would delete.
type Cleaned struct {
	Conversations int64
	Messages      int64 // the messages of these conversations
	Bytes         int64 // the size of these messages, see Outdated.Bytes
	Inbound       int64 // settled inbound
	Deliveries    int64 // deliveries that have ended
	Pairings      int64 // pairings whose codes have expired
}

// Clean deletes what the rules no longer keep: archived and expired conversations whose
// last use is longer ago than the retention; settled inbound, ended deliveries, expired
// pairing codes, old group talk, and uploads that no message has named. Waiting inbound,
// due replies and approved pairings always stay. each is called for every deleted
// conversation, between two writes.
//
// Clean works in small steps with pauses, so that other writes can go first. It only hides
// the conversations; chores remove their rows later. When ctx ends, what was deleted stays
// deleted, and the next call continues.
func (r *Retention) Clean(ctx context.Context, rules Rules, each func(Outdated)) (Cleaned, error) {
	return r.clean(ctx, &cleaner{Retention: r, deletes: true, each: each}, rules)
}

// Preview returns what Clean would delete now, and calls each for every conversation. It deletes nothing.
func (r *Retention) Preview(ctx context.Context, rules Rules, each func(Outdated)) (Cleaned, error) {
	return r.clean(ctx, &cleaner{Retention: r, each: each}, rules)
}

// cleaner is one cleanup.
type cleaner struct {
	*Retention
	deletes bool // false = it only counts
	each    func(Outdated)
	cleaned Cleaned

	at            time.Time // the present, by which age is judged
	unusedSince   int64     // conversations that were last used before this are deleted, if they are archived or expired; milliseconds, 0 = none
	expiredBefore int64     // active conversations that were last used before this are expired; milliseconds, 0 = none
	doneBefore    int64     // rows that were done before this are deleted; milliseconds
}

func (r *Retention) clean(ctx context.Context, c *cleaner, rules Rules) (Cleaned, error) {
	at, err := r.present(ctx, rules, c.deletes)
	if err != nil {
		return Cleaned{}, err
	}
	c.judge(rules, at)
	err = c.run(ctx)
	return c.cleaned, db.Explain(err)
}

// present returns the time by which the rules judge age. If the cleanup deletes, it also stores
// the state of the clock.
func (r *Retention) present(ctx context.Context, rules Rules, deletes bool) (time.Time, error) {
	switch {
	case rules.TrustClock && deletes:
		if err := r.TrustClock(ctx); err != nil {
			return time.Time{}, err
		}
		return r.now(), nil
	case rules.TrustClock:
		return r.now(), nil
	case deletes:
		clock, err := r.LookAtClock(ctx)
		return clock.Trusted, err
	}
	clock, err := r.Clock(ctx)
	return clock.Trusted, err
}

// judge computes from the rules the times before which rows are outdated.
func (c *cleaner) judge(rules Rules, at time.Time) {
	c.at = at
	if rules.Retention > 0 {
		c.unusedSince = db.Millis(c.at.Add(-rules.Retention))
	}
	if rules.Expiration > 0 {
		c.expiredBefore = db.Millis(c.at.Add(-rules.Expiration))
	}
	c.doneBefore = db.Millis(c.at.Add(-max(keepDone, rules.Redelivery+redeliveryMargin)))
}

func (c *cleaner) run(ctx context.Context) error {
	if c.unusedSince > 0 {
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
	var uncounted int64 // Cleaned has no counts for these rows
	if err := c.rows(ctx, appendRows, &uncounted); err != nil {
		return err
	}
	if err := c.rows(ctx, talkRows, &uncounted); err != nil {
		return err
	}
	if err := c.uploads(ctx); err != nil {
		return err
	}
	if err := c.files(ctx); err != nil {
		return err
	}
	return c.pairings(ctx)
}

// pause waits between two deletions, so that other writes go first.
func (c *cleaner) pause(ctx context.Context) error {
	if !c.deletes {
		return ctx.Err()
	}
	return db.Pause(ctx)
}

// pairings deletes pairings whose codes have expired. It needs no small steps, since the number of codes is limited.
func (c *cleaner) pairings(ctx context.Context) error {
	const expired = `FROM pairings WHERE code IS NOT NULL AND expires_at <= ?`
	if !c.deletes {
		return c.db.QueryRowContext(ctx, `SELECT count(*) `+expired, db.Millis(c.at)).Scan(&c.cleaned.Pairings)
	}
	return c.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		result, err := tx.ExecContext(ctx, `DELETE `+expired, db.Millis(c.at))
		if err == nil {
			c.cleaned.Pairings, err = result.RowsAffected()
		}
		return err
	})
}

// files removes files from the folder beside the database that no row of the database names.
func (c *cleaner) files(ctx context.Context) error {
	if !c.deletes {
		return nil
	}
	if err := blobs.RemoveFiles(ctx, c.db); err != nil {
		return err
	}
	return blobs.SweepFolder(ctx, c.db, c.now())
}

// uploads marks uploads for deletion that no message has named within a day. It deletes the keys of
// read uploads after uploads.KeepKey, and after a day the rows of files that belong to no message,
// which an interrupted import leaves behind.
func (c *cleaner) uploads(ctx context.Context) error {
	if !c.deletes {
		return nil
	}
	return c.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE uploads SET state = 'taken', key = NULL WHERE state IN ('coming', 'ready') AND created_at <= ?`,
			db.Millis(c.at.Add(-uploads.Keep)))
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM uploads WHERE state = 'read' AND created_at <= ?`, db.Millis(c.at.Add(-uploads.KeepKey)))
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM files WHERE message_id IS NULL AND inbox_id IS NULL AND created_at <= ?`, db.Millis(c.at.Add(-uploads.Keep)))
		}
		return err
	})
}
