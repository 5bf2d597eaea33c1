// Package reminders stores what people asked to be reminded of. A reminder that is due becomes
// a message of its session, which Store.Accept stores while it moves the reminder on.
package reminders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/metadata"
	"parley/conversation/schedule"
)

// MaxReminders is how many reminders a session may have, and MaxText how many characters the
// text of one: each costs a run when it is due.
const (
	MaxReminders = 50
	MaxText      = 2000
)

// Reminder is something that somebody asked to be reminded of.
type Reminder struct {
	Session  conversation.Key // given by Add
	Number   int              // in its session, from 1; given by Add
	Text     string
	Schedule schedule.Schedule
	Next     time.Time // when it is due, in the zone of the schedule
	Person   conversation.Sender
}

// Reminders stores the reminders of all sessions. It is safe for concurrent use.
type Reminders struct {
	store  *conversation.Store
	db     *db.DB
	added  chan struct{}
	people [][]string
}

// New returns the reminders of a store. Each list of people has the accounts of one person, as
// CHANNEL:ID, who has one time zone.
func New(store *conversation.Store, people ...[]string) *Reminders {
	return &Reminders{store: store, db: store.DB(), added: make(chan struct{}, 1), people: people}
}

// Added receives a value after a reminder was added by these Reminders.
func (r *Reminders) Added() <-chan struct{} { return r.added }

// ErrFull says that a session has MaxReminders.
var ErrFull = errors.New("there is no room for another reminder")

// ErrOver says that the reminder of a call was due already, and is not repeated.
var ErrOver = errors.New("the reminder was due already")

// Add stores a reminder for the session and the person of a message, and returns it with its
// number. The reply to it goes where the reply to the message goes. Another Add with the same
// call, if that is not "", returns the reminder that the first one stored, or ErrOver.
func (r *Reminders) Add(ctx context.Context, asked conversation.Inbound, call string, wanted Reminder) (added Reminder, err error) {
	now := r.store.Now()
	err = r.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		list, err := read(ctx, tx, `call = ?`, call)
		if err != nil || call != "" && len(list) > 0 {
			added = first(list)
			return err
		}
		var over int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM inbox WHERE channel = ? AND source_id = ?`, asked.Channel(), sourceOnce(call)).
			Scan(&over); err != nil {
			return err
		}
		if over > 0 {
			return ErrOver
		}
		session, _, err := rows.EnterSession(ctx, tx, string(asked.Key), "", db.Millis(now))
		if err != nil {
			return err
		}
		var have int
		if err := tx.QueryRowContext(ctx, `SELECT count(*), coalesce(max(number), 0) + 1 FROM reminders WHERE session_id = ?`, session).
			Scan(&have, &wanted.Number); err != nil {
			return err
		}
		if have >= MaxReminders {
			return ErrFull
		}
		wanted.Session, wanted.Person = asked.Key, asked.Sender
		added = wanted
		_, err = tx.ExecContext(ctx, `
			INSERT INTO reminders (session_id, number, channel, account, origin, address, person, name, in_group,
				text, zone, starts_at, rule, next_at, call, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			session, wanted.Number, asked.Channel(), asked.Account, string(cmp.Or(asked.Origin, asked.Key)), asked.Address,
			asked.Sender.ID, db.Text(asked.Sender.Name), asked.Group, db.Text(wanted.Text), wanted.Schedule.Start.Location().String(),
			db.Millis(wanted.Schedule.Start), wanted.Schedule.Rule, db.Millis(wanted.Next), db.Nullable(call), db.Millis(now))
		return err
	})
	if err != nil {
		return Reminder{}, fmt.Errorf("store a reminder: %w", err)
	}
	select {
	case r.added <- struct{}{}:
	default:
	}
	return added, nil
}

func first(list []row) Reminder {
	if len(list) == 0 {
		return Reminder{}
	}
	return list[0].Reminder
}

// Of returns the reminders of a session that a person asked for, the next one first.
func (r *Reminders) Of(ctx context.Context, session conversation.Key, person string) ([]Reminder, error) {
	return r.list(ctx, `person = ? AND session_id = (SELECT id FROM sessions WHERE key = ?)`, person, string(session))
}

// All returns the reminders of everybody in a session, the next one first.
func (r *Reminders) All(ctx context.Context, session conversation.Key) ([]Reminder, error) {
	return r.list(ctx, `session_id = (SELECT id FROM sessions WHERE key = ?)`, string(session))
}

// Everywhere returns the reminders of all sessions that are due next, at most limit.
func (r *Reminders) Everywhere(ctx context.Context, limit int) ([]Reminder, error) {
	return r.list(ctx, `id IN (SELECT id FROM reminders ORDER BY next_at, id LIMIT ?)`, limit)
}

func (r *Reminders) list(ctx context.Context, condition string, args ...any) ([]Reminder, error) {
	found, err := read(ctx, r.db, condition, args...)
	if err != nil {
		return nil, db.Explain(err)
	}
	list := make([]Reminder, len(found))
	for i, one := range found {
		list[i] = one.Reminder
	}
	return list, nil
}

// Delete deletes the reminder of a session that has a number, if the person asked for it.
// deleted is false when there is none.
func (r *Reminders) Delete(ctx context.Context, session conversation.Key, person string, number int) (deleted bool, err error) {
	return r.remove(ctx, `number = ? AND person = ? AND session_id = (SELECT id FROM sessions WHERE key = ?)`, number, person, string(session))
}

// DeleteAny deletes the reminder of a session that has a number, whoever asked for it. deleted
// is false when there is none.
func (r *Reminders) DeleteAny(ctx context.Context, session conversation.Key, number int) (deleted bool, err error) {
	return r.remove(ctx, `number = ? AND session_id = (SELECT id FROM sessions WHERE key = ?)`, number, string(session))
}

func (r *Reminders) remove(ctx context.Context, condition string, args ...any) (deleted bool, err error) {
	err = r.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		result, err := tx.ExecContext(ctx, `DELETE FROM reminders WHERE `+condition, args...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		deleted = n > 0
		return err
	})
	return deleted, err
}

// Serves reports whether a process answers what comes from a place by an account.
type Serves func(of conversation.Account, place conversation.Key) bool

// Next returns when the next reminder of the process is due; zero = there is none.
func (r *Reminders) Next(ctx context.Context, serves Serves) (time.Time, error) {
	list, err := r.db.QueryContext(ctx, `SELECT channel, account, origin, min(next_at) FROM reminders GROUP BY channel, account, origin`)
	if err != nil {
		return time.Time{}, db.Explain(err)
	}
	defer list.Close()
	var next time.Time
	for list.Next() {
		var of conversation.Account
		var place conversation.Key
		var at int64
		if err := list.Scan(&of.Channel, &of.ID, &place, &at); err != nil {
			return time.Time{}, err
		}
		if due := db.FromMillis(at); serves(of, place) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next, db.Explain(list.Err())
}

// maxDue is how many messages Due returns.
const maxDue = 100

// Due returns a message for each reminder of the process that is due, the oldest first. The
// message is dated by the present, and Store.Accept moves its reminder on. Times that were
// missed, because no process was running, are one message.
func (r *Reminders) Due(ctx context.Context, serves Serves) ([]conversation.Inbound, error) {
	now := r.store.Now()
	due, err := read(ctx, r.db, `next_at <= ?`, db.Millis(now))
	if err != nil {
		return nil, db.Explain(err)
	}
	var list []conversation.Inbound
	for _, one := range due {
		if len(list) < maxDue && serves(conversation.Account{Channel: one.origin.Channel(), ID: one.account}, one.origin) {
			list = append(list, one.message(now))
		}
	}
	return list, nil
}

// late is how long after its time a reminder still counts as punctual.
const late = 2 * time.Minute

// message returns the message that a reminder becomes when it is due.
func (r row) message(now time.Time) conversation.Inbound {
	next, _ := r.Schedule.Next(now)
	source := fmt.Sprintf("reminder %d, %d", r.id, r.Next.UnixMilli())
	if r.Schedule.Rule == "" {
		next = time.Time{}
		if r.call != "" {
			source = sourceOnce(r.call)
		}
	}
	return conversation.Inbound{
		Key: r.origin, Account: r.account, Address: r.address, Sender: r.Person, Group: r.group,
		SourceID: source, Text: r.words(now), At: now, NeverCommand: true,
		Options:  conversation.RunOptions{Reminder: r.Number, Metadata: metadata.Object(fmt.Sprintf(`{"reminder":"%d"}`, r.Number))},
		Reminder: schedule.Occurrence{Reminder: r.id, Due: r.Next, Next: next},
	}
}

// sourceOnce returns the source ID of the only message of a reminder that a call has stored. Its row is deleted when it is due, so
// that Add recognizes a repeated call by the message.
func sourceOnce(call string) string { return "reminder " + call }

// words returns the text of a message. The model reads it, and people in the transcript.
func (r row) words(now time.Time) string {
	when := r.Next.Format(schedule.ShownForm) + ", " + r.Next.Location().String()
	if now.Sub(r.Next) < late {
		return fmt.Sprintf("⏰ Reminder %d is due (%s):\n%s", r.Number, when, r.Text)
	}
	missed := ""
	if n := r.Schedule.Missed(r.Next, now, 100); n > 0 {
		missed = fmt.Sprintf("; times missed since then: %d", n)
	}
	return fmt.Sprintf("⏰ Reminder %d is late, since the gateway was not running (it was due %s%s):\n%s", r.Number, when, missed, r.Text)
}

// row is a reminder as it is stored.
type row struct {
	Reminder
	id      int64
	account string
	origin  conversation.Key
	address string
	group   bool
	call    string // that stored it; "" = none
}

// read returns the reminders that meet a condition, the next one first.
func read(ctx context.Context, q db.Querier, condition string, args ...any) ([]row, error) {
	found, err := q.QueryContext(ctx, `
		SELECT id, (SELECT key FROM sessions WHERE id = session_id), number, account, origin, address, person, name, in_group, text, zone, starts_at, rule, next_at, coalesce(call, '')
		FROM reminders WHERE `+condition+` ORDER BY next_at, id`, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var list []row
	for found.Next() {
		var r row
		var zone string
		var starts, next int64
		if err := found.Scan(&r.id, &r.Session, &r.Number, &r.account, &r.origin, &r.address, &r.Person.ID, &r.Person.Name, &r.group,
			&r.Text, &zone, &starts, &r.Schedule.Rule, &next, &r.call); err != nil {
			return nil, err
		}
		in, err := schedule.Zone(zone)
		if err != nil { // the list of zones of this machine is another one
			in = time.UTC
		}
		r.Schedule.Start, r.Next = db.FromMillis(starts).In(in), db.FromMillis(next).In(in)
		list = append(list, r)
	}
	return list, found.Err()
}
