package channels

import (
	"context"
	"time"
)

// grace is how long a step may go on after its caller's context has ended, where
// giving it up halfway would mean that it is done twice.
const grace = 5 * time.Second

// WithGrace returns a context that ends 5 s after ctx does. It is for a request
// that the platform may have taken already, and for the mark of what was sent.
func WithGrace(ctx context.Context) (longer context.Context, cancel context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, end) })
	return longer, func() {
		stop()
		end()
	}
}
