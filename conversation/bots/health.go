package bots

import (
	"context"
	"database/sql"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// The states of a channel.
const (
	Connecting  = "connecting"
	Serving     = "serving"
	Interrupted = "interrupted" // the platform can't be reached, and is tried again
	Rejected    = "rejected"    // the platform refuses the bot until somebody corrects that; it is asked again now and then
	Ended       = "ended"       // by an error that trying again can't correct
)

// Health is how a channel fares, as one bot of its platform serves it.
type Health struct {
	Channel string
	Account string // the platform's id of the bot; "" where the channel has none, or it is not known
	State   string // one of the above
	Detail  string // for the operator, without secrets
	Since   time.Time
}

// SetHealth stores how a channel fares now.
func (b *Bots) SetHealth(ctx context.Context, of conversation.Account, state, detail string) error {
	return b.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO channel_health (channel, account, state, detail, changed_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (channel, account`+db.Either(``, `, node_id`)+`) DO UPDATE SET state = excluded.state, detail = excluded.detail, changed_at = excluded.changed_at`,
			of.Channel, of.ID, state, db.Text(detail), db.Millis(b.now()))
		return err
	})
}

// Health returns how every channel that was ever served fares, or fared last, by channel and bot, the newest first.
func (b *Bots) Health(ctx context.Context) ([]Health, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT channel, account, state, detail, changed_at FROM channel_health ORDER BY channel, changed_at DESC, account`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Health
	for rows.Next() {
		var h Health
		var at int64
		if err := rows.Scan(&h.Channel, &h.Account, &h.State, &h.Detail, &at); err != nil {
			return nil, err
		}
		h.Since = db.FromMillis(at)
		list = append(list, h)
	}
	return list, db.Explain(rows.Err())
}
