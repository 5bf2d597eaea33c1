package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Scope is the part of the work that a process does: all that comes and goes by
// a channel, or what does so in one session.
type Scope struct {
	Channel string
	Key     Key // "" = every session
}

// Waiting lists the sessions in scope that have inbound no run has settled:
// what a crash or an orderly end left to do.
func (s *Store) Waiting(ctx context.Context, scope Scope) ([]Key, error) {
	return s.keys(ctx, `SELECT DISTINCT session_id FROM inbox WHERE run_id IS NULL AND note = 0 AND `+byChannel, scope)
}

// Due lists the sessions in scope that have deliveries to be sent.
func (s *Store) Due(ctx context.Context, scope Scope) ([]Key, error) {
	return s.keys(ctx, `SELECT DISTINCT session_id FROM outbox WHERE state = 'due' AND `+byChannel, scope)
}

// byChannel has a plus that keeps SQLite from reading all of a channel by the
// index that tells messages apart: what waits is little, and has an index of its own.
const byChannel = `+channel = ?1`

func (s *Store) keys(ctx context.Context, sessions string, scope Scope) ([]Key, error) {
	rows, err := s.readers.QueryContext(ctx, `
		SELECT key FROM sessions WHERE id IN (`+sessions+`) AND (?2 = '' OR key = ?2) ORDER BY id`,
		scope.Channel, string(scope.Key))
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	var keys []Key
	for rows.Next() {
		var key Key
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, explain(rows.Err())
}

// Deliveries are the due ones of a session, at most limit, in order: those by
// the channels where any are named.
func (s *Store) Deliveries(ctx context.Context, key Key, limit int, channels ...string) ([]Delivery, error) {
	here, names := amongChannels("o.channel", channels)
	rows, err := s.readers.QueryContext(ctx, `
		SELECT `+deliveryColumns+`
		FROM outbox o JOIN sessions s ON s.id = o.session_id
		WHERE s.key = ? AND o.state = 'due'`+here+` ORDER BY o.id LIMIT ?`,
		slices.Concat([]any{string(key)}, names, []any{limit})...)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	var due []Delivery
	for rows.Next() {
		d, err := scanDelivery(rows, key)
		if err != nil {
			return nil, err
		}
		due = append(due, d)
	}
	return due, explain(rows.Err())
}

// amongChannels is the condition that a column names one of the channels, with
// what stands for its question marks; none where none are named. Its plus is that
// of byChannel.
func amongChannels(column string, channels []string) (condition string, names []any) {
	if len(channels) == 0 {
		return "", nil
	}
	for _, name := range channels {
		names = append(names, name)
	}
	return ` AND +` + column + ` IN (?` + strings.Repeat(`, ?`, len(channels)-1) + `)`, names
}

const deliveryColumns = `o.id, o.channel, o.address, o.text, o.actions, o.transcript, o.sent, o.attempts, o.created_at`

// scanDelivery reads the deliveryColumns, and what a query has behind them.
func scanDelivery(rows *sql.Rows, key Key, more ...any) (Delivery, error) {
	d := Delivery{Key: key}
	var actions, transcript, sent []byte
	var at int64
	err := rows.Scan(append([]any{&d.ID, &d.Channel, &d.Address, &d.Text, &actions, &transcript, &sent, &d.Attempts, &at}, more...)...)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(sent, &d.Sent); err != nil {
		return d, err
	}
	d.At = fromMillis(at)
	return d, unmarshalReply(actions, transcript, &d.Actions, &d.Transcript)
}

// MarkPart stores which parts of a delivery the platform has taken so far.
func (s *Store) MarkPart(ctx context.Context, d Delivery) error {
	return s.mark(ctx, d, replyDue, "")
}

// MarkTried stores how often a delivery was tried, and why the latest try failed;
// it is due as before.
func (s *Store) MarkTried(ctx context.Context, d Delivery, reason string) error {
	return s.mark(ctx, d, replyDue, reason)
}

// MarkSent ends a delivery: the platform has taken every part of it. It may
// wait a few milliseconds for another write, which is less than the platform's
// answer took to arrive.
func (s *Store) MarkSent(ctx context.Context, d Delivery) error {
	return s.mark(ctx, d, replySent, "")
}

// MarkFailed ends a delivery that the platform refuses for good. Its text is kept
// for Redeliver, but not where the conversation was deleted meanwhile.
func (s *Store) MarkFailed(ctx context.Context, d Delivery, reason string) error {
	return s.mark(ctx, d, replyFailed, reason)
}

func (s *Store) mark(ctx context.Context, d Delivery, state, reason string) error {
	sent, err := json.Marshal(d.Sent)
	if err != nil {
		return err
	}
	write := s.writer.write
	if state == replySent {
		write = s.writer.writeLazily
	}
	return write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE outbox SET state = ?1, sent = ?2, attempts = ?3, error = ?4,
				text = CASE ?1 WHEN 'sent' THEN '' ELSE text END,
				address = CASE ?1 WHEN 'sent' THEN '' ELSE address END,
				actions = CASE ?1 WHEN 'sent' THEN NULL ELSE actions END,
				transcript = CASE ?1 WHEN 'sent' THEN NULL ELSE transcript END
			WHERE id = ?5`,
			state, string(sent), d.Attempts, storable(reason), d.ID)
		if err == nil && state == replyFailed {
			_, err = tx.ExecContext(ctx, forgetReply+`WHERE id = ? AND NOT EXISTS (
				SELECT 1 FROM runs r JOIN conversations c ON c.id = r.conversation_id WHERE r.id = outbox.run_id AND c.deleted = 0)`, d.ID)
		}
		return err
	})
}

// Counts is what a person at the controls asks first.
type Counts struct {
	Sessions int64     // places of the channel
	Waiting  int64     // inbound that no run has settled
	Due      int64     // deliveries to be sent
	Oldest   time.Time // of the due deliveries
}

// Count reads the Counts of a scope.
func (s *Store) Count(ctx context.Context, scope Scope) (Counts, error) {
	var c Counts
	var oldest sql.NullInt64
	err := s.readers.QueryRowContext(ctx, `
		WITH mine AS (SELECT id FROM sessions WHERE ?2 = '' OR key = ?2)
		SELECT (SELECT count(*) FROM sessions WHERE channel = ?1 AND id IN mine),
			(SELECT count(*) FROM inbox WHERE run_id IS NULL AND note = 0 AND session_id IN mine AND `+byChannel+`),
			(SELECT count(*) FROM outbox WHERE state = 'due' AND session_id IN mine AND `+byChannel+`),
			(SELECT min(created_at) FROM outbox WHERE state = 'due' AND session_id IN mine AND `+byChannel+`)`,
		scope.Channel, string(scope.Key)).Scan(&c.Sessions, &c.Waiting, &c.Due, &oldest)
	c.Oldest = fromMillis(oldest.Int64)
	return c, explain(err)
}
