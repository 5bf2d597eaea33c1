package agentloop

import (
	"context"
	"log/slog"
	"sync"
)

const (
	backgroundWorkers = 4   // tasks that run at once; each makes a model call
	backgroundQueue   = 256 // tasks that wait
)

// background runs what no session waits for, such as making titles and summaries.
type background struct {
	queue chan func(ctx context.Context)
	log   *slog.Logger
}

func newBackground(log *slog.Logger) *background {
	return &background{queue: make(chan func(context.Context), backgroundQueue), log: log}
}

// submit queues a task and returns at once. It reports false when the queue is full;
// the task is then dropped. The context of a task ends when intake does.
func (b *background) submit(do func(ctx context.Context)) bool {
	select {
	case b.queue <- do:
		return true
	default:
		return false
	}
}

// start starts the workers, which end with ctx.
func (b *background) start(ctx context.Context, workers *sync.WaitGroup) {
	for range backgroundWorkers {
		workers.Go(func() {
			for {
				select {
				case do := <-b.queue:
					b.run(ctx, do)
				case <-ctx.Done():
					b.end(ctx)
					return
				}
			}
		})
	}
}

// end runs the tasks that wait, whose context has ended: somebody may wait for one of them.
func (b *background) end(ctx context.Context) {
	for {
		select {
		case do := <-b.queue:
			b.run(ctx, do)
		default:
			return
		}
	}
}

func (b *background) run(ctx context.Context, do func(ctx context.Context)) {
	err := recovered(func() error {
		do(ctx)
		return nil
	})
	if err != nil {
		b.log.Error("background task failed", "error", err)
	}
}
