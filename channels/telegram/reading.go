package telegram

import (
	"context"
	"errors"

	"parley/channels"
)

const (
	maxBatch    = 100 // the most that https://core.telegram.org/bots/api#getupdates gives at once
	brokenTries = 3   // how often an update must come broken, since anything on the way may break one once
)

// reading is where the poller reads on. An update whose JSON is broken makes
// its whole batch unreadable: then updates are read one by one until the
// broken one is found, and more and more at once where all is well.
type reading struct {
	offset int64 // the first update that was not accepted yet
	limit  int   // the most to be read at once
	broken int   // how often the update at offset could not be read by itself
}

// widen is called after a poll that could be read.
func (r *reading) widen() {
	r.limit, r.broken = min(2*r.limit, maxBatch), 0
}

// narrow is called after a poll that failed. When the failure is a broken
// update, it comes closer to that one, and at last skips it.
func (c *Channel) narrow(ctx context.Context, next *reading, failure error, accept channels.AcceptFunc) error {
	var garbled *garbledError
	if !errors.As(failure, &garbled) {
		return nil
	}
	id := garbled.updateID()
	if id == 0 || id < next.offset {
		return nil
	}
	if next.limit > 1 {
		next.limit = 1
		return nil
	}
	if next.broken++; next.broken < brokenTries {
		return nil
	}
	c.log.Error("an update can't be read, skipping it", "update_id", id, "error", garbled)
	next.limit, next.broken = maxBatch, 0
	return c.advance(ctx, next, id+1, nil, accept)
}
