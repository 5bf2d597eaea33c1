package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// Scope is the part of the work that a process does: all that comes and goes by
// a channel, as one bot or as every one, or what does so in one session.
type Scope struct {
	Channel string
	Account string // the platform's id of the bot; "" = every one
	Key     Key    // "" = every session
}

// By returns the account that works the scope.
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
	ids, err := db.Column[int64](s.db.QueryContext(ctx, sessions))
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
	keys, err := db.Column[Key](s.db.QueryContext(ctx, `
		SELECT key FROM sessions WHERE id IN (`+sessions+`) AND (?2 = '' OR key = ?2) ORDER BY id`,
		scope.Channel, string(scope.Key), scope.Account))
	return keys, db.Explain(err)
}

// DeliveryQuery chooses deliveries that are due. The zero value means all.
type DeliveryQuery struct {
	Key      Key       // of the session, "" = every one
	Ready    bool      // only those that are not set aside
	Held     bool      // only those that are set aside
	After    int64     // only those behind the delivery with this ID
	Accounts []Account // only those that these accounts send; none = every one
	Limit    int
}

// Deliveries lists the deliveries that are due, the oldest first; over all
// sessions those that are set aside come in the order in which they were. What can't be
// read because the file is damaged is noted, and left out of the list of a session.
func (s *Store) Deliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error) {
	due, err := s.readDeliveries(ctx, q, 0)
	if !IsDamaged(err) || q.Key == "" {
		return due, err
	}
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT id FROM outbox INDEXED BY outbox_due WHERE state = 'due' AND session_id = (SELECT id FROM sessions WHERE key = ?) AND id > ? ORDER BY id`,
		string(q.Key), q.After))
	if err != nil {
		return nil, db.Explain(err)
	}
	due = nil
	for _, id := range ids {
		one, err := s.readDeliveries(ctx, q, id)
		switch {
		case IsDamaged(err):
			s.db.NoteDamage(fmt.Sprintf("a reply to %s that is to be sent, number %d", q.Key, id), err)
		case err != nil:
			return nil, err
		}
		if due = append(due, one...); len(due) == q.Limit {
			break
		}
	}
	return due, nil
}

// condition returns what the query asks of a row, with its parameters.
func (q DeliveryQuery) condition(id int64) (text string, args []any) {
	text, args = `o.state = 'due'`, []any{}
	if q.Key != "" {
		text, args = `s.key = ? AND o.id > ? AND `+text, []any{string(q.Key), q.After}
	}
	if q.Ready {
		text += ` AND o.held_at IS NULL`
	}
	if q.Held {
		text += ` AND o.held_at IS NOT NULL`
	}
	if id != 0 {
		text += fmt.Sprintf(` AND o.id = %d`, id)
	}
	here, names := servedBy("o", q.Accounts)
	return text + here, append(args, names...)
}

// order returns what the list is sorted by.
func (q DeliveryQuery) order() string {
	if q.Key == "" && q.Held {
		return `o.held_at, o.id`
	}
	return `o.id`
}

// readDeliveries reads what a query asks for, or of that only the delivery with
// an id that is not 0.
func (s *Store) readDeliveries(ctx context.Context, q DeliveryQuery, id int64) ([]Delivery, error) {
	condition, args := q.condition(id)
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+`
		FROM outbox o JOIN sessions s ON s.id = o.session_id
		WHERE `+condition+` ORDER BY `+q.order()+` LIMIT ?`, append(args, q.Limit)...)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var due []Delivery
	for rows.Next() {
		d, err := scanDelivery(rows)
		if err != nil {
			return nil, err
		}
		due = append(due, d)
	}
	return due, db.Explain(rows.Err())
}

const deliveryColumns = `o.id, o.channel, o.account, o.address, o.text, o.actions, o.transcript, o.sent, (
		SELECT json_group_array(part_id) FROM (SELECT part_id FROM outbox_parts WHERE outbox_id = o.id AND n >= json_array_length(o.sent) ORDER BY n)),
	o.attempts, o.created_at, o.held_at, (SELECT key FROM sessions WHERE sessions.id = o.session_id), o.error`

// scanDelivery reads the deliveryColumns, and what a query has behind them.
func scanDelivery(rows *sql.Rows, more ...any) (d Delivery, err error) {
	var actions, transcript, first, rest []byte
	var at int64
	var heldAt sql.NullInt64
	err = rows.Scan(append([]any{&d.ID, &d.Channel, &d.Account, &d.Address, &d.Text, &actions, &transcript, &first, &rest, &d.Attempts, &at, &heldAt,
		&d.Key, &d.Reason}, more...)...)
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

// Mark is the outcome of an attempt to deliver a reply.
type Mark string

const (
	MarkPart   Mark = "part"   // the platform has taken one part more, the last one of Sent
	MarkTried  Mark = "tried"  // a try failed, and another will follow
	MarkHeld   Mark = "held"   // a try failed; the delivery is set aside, and the later ones of its session go on
	MarkSent   Mark = "sent"   // the platform has taken every part
	MarkFailed Mark = "failed" // the platform refuses it for good, or it can't be prepared for the platform
)

// Mark stores what has become of a delivery, and, but for a part, its Attempts.
// reason says for the operator why the latest try failed, "" where it did not.
//
//   - A part costs the same however long the reply is.
//   - HeldAt of a delivery stays as it is where it was set aside already.
//   - The mark that it was sent may wait a few milliseconds for another write, which is
//     less than the platform's answer took to arrive.
//   - The text of one that failed is kept for Redeliver, unless its conversation was
//     deleted meanwhile.
func (s *Store) Mark(ctx context.Context, d Delivery, mark Mark, reason string) error {
	write := s.db.Write
	if mark == MarkSent {
		write = s.db.WriteLazily
	}
	return write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		switch mark {
		case MarkPart:
			return insertPart(ctx, tx, d, len(d.Sent)-1)
		case MarkTried:
			_, err := tx.ExecContext(ctx, `UPDATE outbox SET attempts = ?, error = ? WHERE id = ?`, d.Attempts, db.Text(reason), d.ID)
			return err
		case MarkHeld:
			_, err := tx.ExecContext(ctx, `
				UPDATE outbox SET held_at = coalesce(held_at, ?), attempts = ?, error = ? WHERE id = ? AND state = 'due'`,
				db.Millis(s.now()), d.Attempts, db.Text(reason), d.ID)
			return err
		case MarkSent:
			return markSent(ctx, tx, d)
		case MarkFailed:
			return markFailed(ctx, tx, d, reason)
		}
		return fmt.Errorf("%w: a delivery is marked as %q", ErrInvalid, mark)
	})
}

func markSent(ctx context.Context, tx *sql.Tx, d Delivery) error {
	sent := sql.NullString{}
	if len(d.Sent) == 1 { // as nearly always: it needs no row of its own
		ids, err := json.Marshal(d.Sent)
		if err != nil {
			return err
		}
		sent = sql.NullString{String: string(ids), Valid: true}
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE outbox SET state = ?, sent = coalesce(?, sent), attempts = ?, error = '', text = '', address = '', actions = NULL, transcript = NULL
		WHERE id = ?`, replySent, sent, d.Attempts, d.ID)
	if err == nil && len(d.Sent) > 1 {
		err = insertPart(ctx, tx, d, len(d.Sent)-1)
	}
	return err
}

func markFailed(ctx context.Context, tx *sql.Tx, d Delivery, reason string) error {
	for n := range d.Sent {
		if err := insertPart(ctx, tx, d, n); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `UPDATE outbox SET state = ?, attempts = ?, error = ? WHERE id = ?`,
		replyFailed, d.Attempts, db.Text(reason), d.ID)
	if err == nil {
		_, err = tx.ExecContext(ctx, rows.ForgetReply+`WHERE id = ? AND NOT EXISTS (
			SELECT 1 FROM runs r JOIN conversations c ON c.id = r.conversation_id WHERE r.id = outbox.run_id AND c.deleted = 0)`, d.ID)
	}
	return err
}

// insertPart stores the platform's id of one part of a delivery, once.
func insertPart(ctx context.Context, tx *sql.Tx, d Delivery, n int) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO outbox_parts (outbox_id, n, part_id) SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM outbox WHERE id = ?1)
		ON CONFLICT DO NOTHING`, d.ID, n, d.Sent[n])
	return err
}

// FailedDelivery is a reply that the platform has refused for good. It is kept
// like all that has ended, for a week.
type FailedDelivery struct {
	Delivery
	RunID        int64
	Conversation string // ID, "" where there is none
	Title        string // of the conversation
	Again        bool   // it can be sent again: its words are not deleted
}

// FailedDeliveries lists them over all sessions, the newest first, leaving out
// the skip first ones.
func (s *Store) FailedDeliveries(ctx context.Context, skip, limit int) ([]FailedDelivery, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+`, o.run_id, coalesce(c.uuid, ''), coalesce(c.title, ''), `+sendable+`
		FROM outbox o JOIN sessions s ON s.id = o.session_id JOIN runs r ON r.id = o.run_id
			LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
		WHERE o.state = 'failed' ORDER BY o.id DESC LIMIT ? OFFSET ?`, limit, skip)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []FailedDelivery
	for rows.Next() {
		f, err := scanFailed(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, db.Explain(rows.Err())
}

// sendable is the condition that the words of a failed delivery are not deleted,
// nor about to be.
const sendable = `(o.text <> '' AND (r.conversation_id IS NULL OR c.id IS NOT NULL))`

func scanFailed(rows *sql.Rows) (f FailedDelivery, err error) {
	f.Delivery, err = scanDelivery(rows, &f.RunID, &f.Conversation, &f.Title, &f.Again)
	if !f.Again {
		f.Text, f.Actions, f.Transcript = "", nil, nil
	}
	return f, err
}

// Redeliver makes a failed delivery due again and gives it as it is then; its
// sender is told to look into the store. The parts that the platform took are
// not sent again. ErrNotFailed when it was sent again already, or its words are
// deleted.
func (s *Store) Redeliver(ctx context.Context, id int64) (again Delivery, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		again, err = redeliver(ctx, tx, id)
		if err != nil {
			return fmt.Errorf("send delivery %d again: %w", id, err)
		}
		return nil
	})
	return again, err
}

func redeliver(ctx context.Context, tx *sql.Tx, id int64) (d Delivery, err error) {
	result, err := tx.ExecContext(ctx, `
		UPDATE outbox SET state = 'due', attempts = 0, error = '', held_at = NULL
		WHERE state = 'failed' AND id = (
			SELECT o.id FROM outbox o JOIN runs r ON r.id = o.run_id LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
			WHERE o.id = ? AND `+sendable+`)`, id)
	if err != nil {
		return d, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return d, cmp.Or(err, ErrNotFailed)
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+deliveryColumns+` FROM outbox o WHERE o.id = ?`, id)
	if err != nil {
		return d, err
	}
	defer rows.Close()
	if !rows.Next() {
		return d, errors.Join(rows.Err(), ErrNotFailed)
	}
	return scanDelivery(rows)
}
