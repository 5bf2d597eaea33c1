package agentloop

import (
	"context"
	"sync"
)

const (
	backgroundWorkers = 4   // model calls at once that nobody waits for
	backgroundQueue   = 256 // that wait; more are left undone until their session speaks again
)

// later has something done that nobody waits for, beside the loops. It never
// blocks, and reports whether it will be done. do's context ends when intake does.
func (r *Router) inBackground(do func(ctx context.Context)) bool {
	select {
	case r.background <- do:
		return true
	default:
		return false
	}
}

// workLater starts those who do what later takes.
func (r *Router) startBackground(ctx context.Context, working *sync.WaitGroup) {
	for range backgroundWorkers {
		working.Go(func() {
			for {
				select {
				case do := <-r.background:
					r.runInBackground(ctx, do)
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// doGuarded logs a panic: what nobody waits for must not end the gateway.
func (r *Router) runInBackground(ctx context.Context, do func(ctx context.Context)) {
	err := recovered(func() error {
		do(ctx)
		return nil
	})
	if err != nil {
		r.deps.Log.Error("work behind the talk failed", "error", err)
	}
}
