package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pass waits until this node may pass the gate of a name. All nodes together pass it at most once per
// pace. It is for limits that a platform sets for a bot as a whole.
func (n *Node) Pass(ctx context.Context, name string, pace time.Duration) error {
	for {
		wait, err := n.tryPass(ctx, name, pace)
		if err != nil || wait == 0 {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// Shut closes the gate of a name for a pace from now on.
func (n *Node) Shut(ctx context.Context, name string, pace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, n.config.TTL/2)
	defer cancel()
	_, err := n.pool.Exec(ctx, `
		INSERT INTO gates (name, free_at) VALUES ($1, `+databaseTime+` + $2)
		ON CONFLICT (name) DO UPDATE SET free_at = EXCLUDED.free_at`, name, pace.Milliseconds())
	return err
}

// tryPass returns 0 if the node may pass, otherwise how long the gate stays closed. A gate that would be closed for longer than a
// pace was passed while the database's clock was wrong, and is open.
func (n *Node) tryPass(ctx context.Context, name string, pace time.Duration) (wait time.Duration, err error) {
	var free int64
	err = n.pool.QueryRow(ctx, `
		INSERT INTO gates AS gate (name, free_at) VALUES ($1, `+databaseTime+` + $2)
		ON CONFLICT (name) DO UPDATE SET free_at = EXCLUDED.free_at WHERE gate.free_at <= `+databaseTime+` OR gate.free_at > `+databaseTime+` + $2
		RETURNING free_at`, name, pace.Milliseconds()).Scan(&free)
	if !errors.Is(err, pgx.ErrNoRows) {
		return 0, err
	}
	var left int64
	err = n.pool.QueryRow(ctx, `SELECT free_at - `+databaseTime+` FROM gates WHERE name = $1`, name).Scan(&left)
	left = min(max(left, 1), pace.Milliseconds())
	return time.Duration(left) * time.Millisecond, err
}
