package conversation

import (
	"context"
	"database/sql"
	"time"
)

// The states of a channel.
const (
	HealthConnecting  = "connecting"
	HealthServing     = "serving"
	HealthInterrupted = "interrupted" // the platform is gone, and is tried again
	HealthEnded       = "ended"       // by an error that trying again can't mend
)

// Health is how a channel of the running gateway fares.
type Health struct {
	Channel string
	State   string // one of the above
	Detail  string // for the operator, without secrets
	Since   time.Time
}

// SetHealth stores how a channel fares now.
func (s *Store) SetHealth(ctx context.Context, channel, state, detail string) error {
	return s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO channel_health (channel, state, detail, changed_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (channel) DO UPDATE SET state = excluded.state, detail = excluded.detail, changed_at = excluded.changed_at`,
			channel, state, storable(detail), millis(s.now()))
		return err
	})
}

// Health lists how every channel that was ever served fares, or fared last.
func (s *Store) Health(ctx context.Context) ([]Health, error) {
	rows, err := s.readers.QueryContext(ctx, `SELECT channel, state, detail, changed_at FROM channel_health ORDER BY channel`)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	var list []Health
	for rows.Next() {
		var h Health
		var at int64
		if err := rows.Scan(&h.Channel, &h.State, &h.Detail, &at); err != nil {
			return nil, err
		}
		h.Since = fromMillis(at)
		list = append(list, h)
	}
	return list, explain(rows.Err())
}
