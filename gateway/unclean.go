package gateway

import (
	"context"
	"time"
)

// firstCheck is how long after the start the database is checked that a process
// has not closed: when what was left waiting is mostly answered.
const firstCheck = 5 * time.Second

// checkUnclean has the database checked, once, if the process before this one
// died. What is found keeps the gateway from being ready.
func (g *Gateway) checkUnclean(ctx context.Context, after time.Duration) {
	due := time.NewTimer(after)
	defer due.Stop()
	select {
	case <-due.C:
	case <-ctx.Done():
		return
	}
	if err := g.store.CheckUnclean(ctx); err != nil && ctx.Err() == nil {
		g.log.Warn("database not checked after an unclean end", "error", err)
	}
}
