// Package deferred stores which messages wait because their model could not be called. They stay in the inbox, and are
// answered when the model is back.
package deferred

import (
	"context"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/steps"
)

// Words tell a person, in any chat, that a message waits.
const Words = "⏳ The model can't answer now. Your message waits, and I will answer when it is back."

// Deferred are the deferred messages of a store. It is safe for concurrent use.
type Deferred struct {
	db  *db.DB
	now func() time.Time
}

// New returns the deferred messages of a store.
func New(store *conversation.Store) *Deferred { return &Deferred{db: store.DB(), now: store.Now} }

// Deferral says which messages of a session wait.
type Deferral struct {
	Key    conversation.Key
	Took   []conversation.Inbound
	Model  string    // name of the model that can't be called
	Until  time.Time // when they are tried again at the earliest
	Notice string    // tells the chat, once for all that waits in the session at a time

	IsReminder bool // Notice holds a reminder, and is told even if the chat knows that messages wait
}

// Add stores that messages wait, and returns the notice that is to be sent for it. There is none if others wait in the session
// already, which the chat knows, or if pages show what waits.
func (d *Deferred) Add(ctx context.Context, w Deferral) (due []conversation.Delivery, err error) {
	err = d.db.WriteOwned(ctx, string(w.Key), func(ctx context.Context, tx db.Tx) error {
		due = nil
		first, last, told, changed := w.Took[0], w.Took[len(w.Took)-1], false, int64(0)
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM inbox WHERE session_id = (SELECT id FROM sessions WHERE key = ?)
			AND run_id IS NULL AND deferred_since IS NOT NULL)`, string(w.Key)).Scan(&told); err != nil {
			return err
		}
		for _, in := range w.Took {
			n, err := db.Changed(tx.ExecContext(ctx, `
				UPDATE inbox SET deferred_since = coalesce(deferred_since, ?), deferred_until = ?, deferred_model = ? WHERE id = ? AND run_id IS NULL`,
				db.Millis(d.now()), db.Millis(w.Until), db.Text(w.Model), in.ID))
			if err != nil {
				return err
			}
			changed += n
		}
		if told && !w.IsReminder || changed == 0 || last.Keep {
			return nil
		}
		to := last.Destination()
		notice := conversation.Delivery{Key: w.Key, Channel: to.Channel, Account: to.Account, Address: to.Address, Text: db.Text(w.Notice), At: d.now(), Interim: true,
			RunID: first.ID, Preview: first.Preview}
		notice.ID, err = db.Insert(ctx, tx, `
			INSERT INTO outbox (session_id, run_id, channel, account, address, text, state, interim, created_at)
			VALUES ((SELECT id FROM sessions WHERE key = ?), ?, ?, ?, ?, ?, 'due', 1, ?)`,
			string(w.Key), notice.RunID, notice.Channel, notice.Account, notice.Address, notice.Text, db.Millis(notice.At))
		due = []conversation.Delivery{notice}
		return err
	})
	return due, err
}

// End stores that the messages of a session no longer wait for a model.
func (d *Deferred) End(ctx context.Context, key conversation.Key) error {
	return d.db.WriteOwned(ctx, string(key), func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE inbox SET deferred_since = NULL, deferred_until = NULL, deferred_model = NULL
			WHERE session_id = (SELECT id FROM sessions WHERE key = ?) AND run_id IS NULL AND deferred_since IS NOT NULL`, string(key))
		return err
	})
}

// Session is a session in which messages to a bot wait for a model.
type Session struct {
	Key      conversation.Key
	To       conversation.Account // the channel and the bot that they came to
	Model    string               // name of the model, "" if it is not known
	Since    time.Time            // since when the oldest message waits
	Until    time.Time            // when the session is tried again at the earliest
	Messages int
}

// Sessions lists the sessions in which messages wait, those that have waited longest first. A session with messages from several
// places is listed for each of them.
func (d *Deferred) Sessions(ctx context.Context) (list []Session, err error) {
	found, err := db.Short(ctx, d.db, `
		SELECT s.key, coalesce(i.origin, s.key), i.account, max(coalesce(i.deferred_model, '')), min(i.deferred_since), max(coalesce(i.deferred_until, 0)), count(*)
		FROM inbox i`+db.Either(` INDEXED BY inbox_waiting`, ``)+` JOIN sessions s ON s.id = i.session_id
		WHERE i.run_id IS NULL AND i.deferred_since IS NOT NULL
		GROUP BY s.key, coalesce(i.origin, s.key), i.account ORDER BY min(i.deferred_since), min(i.id)`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer found.Close()
	for found.Next() {
		var one Session
		var origin conversation.Key
		var since, until int64
		if err := found.Scan(&one.Key, &origin, &one.To.ID, &one.Model, &since, &until, &one.Messages); err != nil {
			return nil, db.Explain(err)
		}
		one.To.Channel, one.Since, one.Until = origin.Channel(), db.FromMillis(since), db.FromMillis(until)
		list = append(list, one)
	}
	return list, db.Explain(found.Err())
}

// Retry says what Deferred.Retry has answered again.
type Retry struct {
	Since    time.Time                 // runs that failed before are left alone
	Channels func(channel string) bool // reports whether failed messages of a channel are answered again
	Failure  func(kind string) bool    // reports whether a kind of failure is one of the server, see steps.Step
}

// Retried counts what Retry has found.
type Retried struct {
	Sessions, Messages int // that waited already, and are tried at once
	Failed             int // sessions whose last message has failed, and is answered again
}

// Retry has every message that waits tried at once. Where the newest run of a session has failed by a fault of the model's
// server, and nothing waits, it adds a /retry to what waits, in the name of the person who asked.
func (d *Deferred) Retry(ctx context.Context, what Retry) (done Retried, err error) {
	failed, err := d.failed(ctx, what)
	if err != nil {
		return done, db.Explain(err)
	}
	waiting, err := d.Sessions(ctx)
	if err != nil {
		return done, err
	}
	for _, s := range waiting {
		done.Sessions, done.Messages = done.Sessions+1, done.Messages+s.Messages
	}
	err = d.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		now := db.Millis(d.now())
		if _, err := tx.ExecContext(ctx, `UPDATE inbox SET deferred_until = ? WHERE run_id IS NULL AND deferred_since IS NOT NULL`, now); err != nil {
			return err
		}
		done.Failed = 0
		for _, run := range failed {
			id, err := db.Insert(ctx, tx, `
				INSERT INTO inbox (session_id, channel, account, origin, source_id, address, sender, in_group, text, keep, sent_at, deferred_since, deferred_until)
				SELECT session_id, channel, account, origin, ?1, address, sender, in_group, '/retry', CASE WHEN `+rows.Keeps+` THEN 1 ELSE 0 END, ?2, ?2, ?2
				FROM inbox i WHERE id = ?3
				ON CONFLICT (channel, source_id, account) DO NOTHING`, fmt.Sprintf("retry:%d", run), now, run)
			if err != nil {
				return err
			}
			if id != 0 {
				done.Failed++
			}
		}
		return nil
	})
	return done, err
}

// failed returns the failed runs that Retry has answered again.
func (d *Deferred) failed(ctx context.Context, what Retry) (runs []int64, err error) {
	found, err := d.db.QueryContext(ctx, `
		SELECT r.id, r.model, r.started_at, coalesce(r.steps, ''), coalesce(i.origin, s.key)
		FROM runs r JOIN conversations c ON c.id = r.conversation_id JOIN sessions s ON s.id = r.session_id JOIN inbox i ON i.id = r.id
		WHERE r.kind = 'agent' AND r.status = 'failed' AND r.ended_at >= ? AND c.active = 1 AND c.deleted = 0 AND (i.address <> '' OR `+rows.Keeps+`)
			AND NOT EXISTS (SELECT 1 FROM runs n WHERE n.session_id = r.session_id AND n.kind = 'agent' AND n.id > r.id)
			AND NOT EXISTS (SELECT 1 FROM inbox w WHERE w.session_id = r.session_id AND w.run_id IS NULL AND w.note = 0)
		ORDER BY r.id`, db.Millis(what.Since))
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var id, started int64
		var model string
		var encoded []byte
		var origin conversation.Key
		if err := found.Scan(&id, &model, &started, &encoded, &origin); err != nil {
			return nil, err
		}
		list, err := steps.Decode(encoded, model, db.FromMillis(started))
		if err != nil {
			return nil, err
		}
		if n := len(list); n > 0 && what.Channels(origin.Channel()) && what.Failure(list[n-1].Failure) {
			runs = append(runs, id)
		}
	}
	return runs, found.Err()
}
