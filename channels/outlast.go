package channels

import (
	"context"
	"time"
)

// grace is how much longer than everything else a step may take that would be
// done twice if it were given up halfway.
const grace = 5 * time.Second

// Outlast gives a context that ends a grace of 5 s after ctx does: for a
// request that a platform may have taken already, and for its mark.
func Outlast(ctx context.Context) (longer context.Context, cancel context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, end) })
	return longer, func() {
		stop()
		end()
	}
}
