package conversation

import (
	"context"
	"database/sql"
	"time"

	"parley/conversation/internal/db"
)

// The states of a channel.
const (
	HealthConnecting  = "connecting"
	HealthServing     = "serving"
	HealthInterrupted = "interrupted" // the platform is gone, and is tried again
	HealthRejected    = "rejected"    // the platform refuses the bot until somebody mends it; it is asked again now and then
	HealthEnded       = "ended"       // by an error that trying again can't mend
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
func (s *Store) SetHealth(ctx context.Context, of Account, state, detail string) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO channel_health (channel, account, state, detail, changed_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (channel, account) DO UPDATE SET state = excluded.state, detail = excluded.detail, changed_at = excluded.changed_at`,
			of.Channel, of.ID, state, db.Text(detail), db.Millis(s.now()))
		return err
	})
}

// Health lists how every channel that was ever served fares, or fared last, as
// each bot that has served it, the newest first.
func (s *Store) Health(ctx context.Context) ([]Health, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT channel, account, state, detail, changed_at FROM channel_health ORDER BY channel, changed_at DESC, account`)
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
