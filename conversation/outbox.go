package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation/internal/db"
)

// Scope is the part of the work that a process does: all that comes and goes by
// a channel, as one bot or as every one, or what does so in one session.
type Scope struct {
	Channel string
	Account string // the platform's id of the bot; "" = every one
	Key     Key    // "" = every session
}

// By is who works the scope.
func (s Scope) By() Account { return Account{s.Channel, s.Account} }

// Waiting lists the sessions in scope that have inbound no run has settled:
// what a crash or an orderly end left to do.
func (s *Store) Waiting(ctx context.Context, scope Scope) ([]Key, error) {
	keys, err := s.keys(ctx, `SELECT DISTINCT session_id FROM inbox WHERE run_id IS NULL AND note = 0 AND `+byAccount, scope)
	if IsDamaged(err) {
		return s.readableKeys(ctx, `SELECT DISTINCT session_id FROM inbox INDEXED BY inbox_waiting WHERE run_id IS NULL`, scope)
	}
	return keys, err
}

// Due lists the sessions in scope that have deliveries to be sent.
func (s *Store) Due(ctx context.Context, scope Scope) ([]Key, error) {
	keys, err := s.keys(ctx, `SELECT DISTINCT session_id FROM outbox WHERE state = 'due' AND `+byAccount, scope)
	if IsDamaged(err) {
		return s.readableKeys(ctx, `SELECT DISTINCT session_id FROM outbox INDEXED BY outbox_due WHERE state = 'due'`, scope)
	}
	return keys, err
}

// readableKeys returns the keys of sessions as far as they can be read, whatever
// the channel: who asks finds nothing to do in those of another one.
func (s *Store) readableKeys(ctx context.Context, sessions string, scope Scope) (keys []Key, err error) {
	ids, err := queryIDs(ctx, s.db, sessions)
	if err != nil {
		return nil, db.Explain(err)
	}
	for _, id := range ids {
		var key Key
		err := s.db.QueryRowContext(ctx, `SELECT key FROM sessions WHERE id = ? AND (?2 = '' OR key = ?2)`, id, string(scope.Key)).Scan(&key)
		switch {
		case err == nil:
			keys = append(keys, key)
		case !errors.Is(err, sql.ErrNoRows) && !IsDamaged(err):
			return nil, db.Explain(err)
		}
	}
	return keys, nil
}

// byAccount is the condition that a row is in a scope, with its channel as ?1 and
// its account as ?3. It has a plus that keeps SQLite from reading all of a channel
// by the index that tells messages apart: what waits is little, and has an index
// of its own.
var byAccount = `+channel = ?1 AND ` + ofAccount("account", "?3")

func (s *Store) keys(ctx context.Context, sessions string, scope Scope) ([]Key, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT key FROM sessions WHERE id IN (`+sessions+`) AND (?2 = '' OR key = ?2) ORDER BY id`,
		scope.Channel, string(scope.Key), scope.Account)
	if err != nil {
		return nil, db.Explain(err)
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
	return keys, db.Explain(rows.Err())
}

// Deliveries are the due ones of a session that are not set aside, at most limit,
// in order: those that the accounts send where any are named.
func (s *Store) Deliveries(ctx context.Context, key Key, limit int, accounts ...Account) ([]Delivery, error) {
	return s.dueDeliveries(ctx, key, `o.held_at IS NULL`, 0, limit, accounts)
}

// Held returns the deliveries of a session that are set aside, at most limit, in
// order: those behind the delivery after, that the accounts send where any are
// named.
func (s *Store) Held(ctx context.Context, key Key, after int64, limit int, accounts ...Account) ([]Delivery, error) {
	return s.dueDeliveries(ctx, key, `o.held_at IS NOT NULL`, after, limit, accounts)
}

// dueDeliveries leaves out what can't be read, since it stands on a damaged page:
// that is noted, and the replies behind it are sent.
func (s *Store) dueDeliveries(ctx context.Context, key Key, condition string, after int64, limit int, accounts []Account) ([]Delivery, error) {
	due, err := s.readDeliveries(ctx, key, condition, after, limit, accounts)
	if !IsDamaged(err) {
		return due, err
	}
	ids, err := queryIDs(ctx, s.db, `
		SELECT id FROM outbox INDEXED BY outbox_due WHERE state = 'due' AND session_id = (SELECT id FROM sessions WHERE key = ?) AND id > ? ORDER BY id`,
		string(key), after)
	if err != nil {
		return nil, db.Explain(err)
	}
	due = nil
	for _, id := range ids {
		one, err := s.readDeliveries(ctx, key, condition+fmt.Sprintf(` AND o.id = %d`, id), after, 1, accounts)
		switch {
		case IsDamaged(err):
			s.db.NoteDamage(fmt.Sprintf("a reply to %s that is to be sent, number %d", key, id), err)
		case err != nil:
			return nil, err
		}
		if due = append(due, one...); len(due) == limit {
			break
		}
	}
	return due, nil
}

func (s *Store) readDeliveries(ctx context.Context, key Key, condition string, after int64, limit int, accounts []Account) ([]Delivery, error) {
	here, names := servedBy("o", accounts)
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+`
		FROM outbox o JOIN sessions s ON s.id = o.session_id
		WHERE s.key = ? AND o.id > ? AND o.state = 'due' AND `+condition+here+` ORDER BY o.id LIMIT ?`,
		slices.Concat([]any{string(key), after}, names, []any{limit})...)
	if err != nil {
		return nil, db.Explain(err)
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
	return due, db.Explain(rows.Err())
}

const deliveryColumns = `o.id, o.channel, o.account, o.address, o.text, o.actions, o.transcript, o.sent, (
		SELECT json_group_array(part_id) FROM (SELECT part_id FROM outbox_parts WHERE outbox_id = o.id AND n >= json_array_length(o.sent) ORDER BY n)),
	o.attempts, o.created_at, o.held_at`

// scanDelivery reads the deliveryColumns, and what a query has behind them.
func scanDelivery(rows *sql.Rows, key Key, more ...any) (Delivery, error) {
	d := Delivery{Key: key}
	var actions, transcript, first, rest []byte
	var at int64
	var heldAt sql.NullInt64
	err := rows.Scan(append([]any{&d.ID, &d.Channel, &d.Account, &d.Address, &d.Text, &actions, &transcript, &first, &rest, &d.Attempts, &at, &heldAt}, more...)...)
	if err != nil {
		return d, err
	}
	for _, list := range [][]byte{first, rest} {
		var ids []string
		if err := json.Unmarshal(list, &ids); err != nil {
			return d, err
		}
		d.Sent = append(d.Sent, ids...)
	}
	d.At, d.HeldAt = db.FromMillis(at), db.FromMillis(heldAt.Int64)
	return d, unmarshalReply(actions, transcript, &d.Actions, &d.Transcript)
}

// MarkPart stores that the platform has taken one part more of a delivery: the
// last one of Sent. It costs the same for every part, however long the reply is.
func (s *Store) MarkPart(ctx context.Context, d Delivery) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return insertPart(ctx, tx, d, len(d.Sent)-1)
	})
}

// MarkTried stores how often a delivery was tried, and why the latest try failed;
// it is due as before.
func (s *Store) MarkTried(ctx context.Context, d Delivery, reason string) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE outbox SET attempts = ?, error = ? WHERE id = ?`, d.Attempts, db.Text(reason), d.ID)
		return err
	})
}

// MarkHeld sets a delivery aside, and stores how often it was tried and why the
// latest try failed. It is due as before, and the later ones of its session no
// longer wait for it. HeldAt stays what it was where it was set aside already.
func (s *Store) MarkHeld(ctx context.Context, d Delivery, reason string) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE outbox SET held_at = coalesce(held_at, ?), attempts = ?, error = ? WHERE id = ? AND state = 'due'`,
			db.Millis(s.now()), d.Attempts, db.Text(reason), d.ID)
		return err
	})
}

// MarkSent ends a delivery: the platform has taken every part of it. It may
// wait a few milliseconds for another write, which is less than the platform's
// answer took to arrive.
func (s *Store) MarkSent(ctx context.Context, d Delivery) error {
	sent := sql.NullString{}
	if len(d.Sent) == 1 { // as nearly always: it needs no row of its own
		ids, err := json.Marshal(d.Sent)
		if err != nil {
			return err
		}
		sent = sql.NullString{String: string(ids), Valid: true}
	}
	return s.db.WriteLazily(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE outbox SET state = ?, sent = coalesce(?, sent), attempts = ?, error = '', text = '', address = '', actions = NULL, transcript = NULL
			WHERE id = ?`, replySent, sent, d.Attempts, d.ID)
		if err == nil && len(d.Sent) > 1 {
			err = insertPart(ctx, tx, d, len(d.Sent)-1)
		}
		return err
	})
}

// MarkFailed ends a delivery that the platform refuses for good, or that can't be
// prepared for it. Its text is kept for Redeliver, but not where the conversation
// was deleted meanwhile.
func (s *Store) MarkFailed(ctx context.Context, d Delivery, reason string) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for n := range d.Sent {
			if err := insertPart(ctx, tx, d, n); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE outbox SET state = ?, attempts = ?, error = ? WHERE id = ?`,
			replyFailed, d.Attempts, db.Text(reason), d.ID)
		if err == nil {
			_, err = tx.ExecContext(ctx, forgetReply+`WHERE id = ? AND NOT EXISTS (
				SELECT 1 FROM runs r JOIN conversations c ON c.id = r.conversation_id WHERE r.id = outbox.run_id AND c.deleted = 0)`, d.ID)
		}
		return err
	})
}

// insertPart stores the platform's id of one part of a delivery, once.
func insertPart(ctx context.Context, tx *sql.Tx, d Delivery, n int) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO outbox_parts (outbox_id, n, part_id) SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM outbox WHERE id = ?1)
		ON CONFLICT DO NOTHING`, d.ID, n, d.Sent[n])
	return err
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
	err := s.db.QueryRowContext(ctx, `
		WITH mine AS (SELECT id FROM sessions WHERE ?2 = '' OR key = ?2)
		SELECT (SELECT count(*) FROM sessions WHERE channel = ?1 AND id IN mine),
			(SELECT count(*) FROM inbox WHERE run_id IS NULL AND note = 0 AND session_id IN mine AND `+byAccount+`),
			(SELECT count(*) FROM outbox WHERE state = 'due' AND session_id IN mine AND `+byAccount+`),
			(SELECT min(created_at) FROM outbox WHERE state = 'due' AND session_id IN mine AND `+byAccount+`)`,
		scope.Channel, string(scope.Key), scope.Account).Scan(&c.Sessions, &c.Waiting, &c.Due, &oldest)
	c.Oldest = db.FromMillis(oldest.Int64)
	return c, db.Explain(err)
}
