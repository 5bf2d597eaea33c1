package gateway

import (
	"context"
	"time"

	"parley/conversation/dbhealth"
)

// firstCheck is the delay from the start to the check of a database that was not
// closed cleanly, so that most of the backlog is answered first.
const firstCheck = 5 * time.Second

// checkAfterCrash checks the database once if the last process on it died. Damage
// that it finds makes the gateway unready.
func (g *Gateway) checkAfterCrash(ctx context.Context, after time.Duration) {
	due := time.NewTimer(after)
	defer due.Stop()
	select {
	case <-due.C:
	case <-ctx.Done():
		return
	}
	if err := dbhealth.New(g.store).CheckUnclean(ctx); err != nil && ctx.Err() == nil {
		g.log.Warn("database check after crash failed", "error", err)
	}
}
