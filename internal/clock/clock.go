// Package clock waits.
package clock

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends; then it returns the context's error. It
// does not wait when d is not positive.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Every calls do every d until ctx ends. It does not begin with a call, and makes up for none that
// a slow do has kept it from.
func Every(ctx context.Context, d time.Duration, do func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}
