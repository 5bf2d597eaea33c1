package agentloop

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"parley/internal/waittest"
)

// The gateway ends while summaries wait for their turn: a run that waits for one of them goes on at once, so that its answer
// comes before the end.
func TestWaitingTasksEndWithTheGateway(t *testing.T) {
	t.Parallel()
	b := newBackground(slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(t.Context())
	started, ended := make(chan struct{}, backgroundWorkers), make(chan struct{}, 10)
	for range backgroundWorkers {
		b.submit(func(ctx context.Context) { started <- struct{}{}; <-ctx.Done() })
	}
	for range cap(ended) {
		b.submit(func(ctx context.Context) {
			if ctx.Err() == nil {
				t.Error("a task began before the others had ended")
			}
			ended <- struct{}{}
		})
	}
	var workers sync.WaitGroup
	b.start(ctx, &workers)
	for range backgroundWorkers {
		waittest.Receive(t, started, "the first tasks begin")
	}
	end()
	workers.Wait()
	if len(ended) < cap(ended) {
		t.Errorf("%d of %d waiting tasks were told of the end", len(ended), cap(ended))
	}
}
