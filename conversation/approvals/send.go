package approvals

import (
	"context"
	"database/sql"
	"errors"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// send stores a message about a question whose run waits. It is addressed as the last message that the run took. It returns
// what is to be sent: nothing where programs and pages ask for what is open, or where the message was withdrawn.
func (a *Approvals) send(ctx context.Context, tx db.Tx, q Question, m Message) ([]conversation.Delivery, error) {
	d := conversation.Delivery{Key: q.Session, RunID: q.Run, Text: db.Text(m.Text), Actions: m.Actions, At: a.now(), Interim: true}
	var session int64
	var origin conversation.Key
	var keep bool
	err := tx.QueryRowContext(ctx, `
		SELECT i.session_id, coalesce(i.origin, s.key), i.account, i.address, `+rows.Keeps+`
		FROM inbox i JOIN sessions s ON s.id = i.session_id
		WHERE i.id = (SELECT max(CAST(t.value ->> 'id' AS BIGINT)) FROM journals j CROSS JOIN `+db.EachOf("j.took")+` t WHERE j.run_id = ?) AND i.run_id IS NULL`,
		q.Run).Scan(&session, &origin, &d.Account, &d.Address, &keep)
	if errors.Is(err, sql.ErrNoRows) || err == nil && keep {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	actions, err := db.JSONOrNull(d.Actions, len(d.Actions) == 0)
	if err != nil {
		return nil, err
	}
	d.Channel = origin.Channel()
	d.ID, err = db.Insert(ctx, tx, `
		INSERT INTO outbox (session_id, run_id, channel, account, address, text, actions, state, interim, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 'due', 1, ?)`, session, q.Run, d.Channel, d.Account, d.Address, d.Text, actions, db.Millis(d.At))
	return []conversation.Delivery{d}, err
}
