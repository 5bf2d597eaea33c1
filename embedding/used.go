package embedding

import (
	"context"
	"time"

	"parley/conversation/usage"
	"parley/internal/clock"
)

// storeEvery is how long requests are collected before the store counts them: a process that is
// killed loses no more of the count.
const storeEvery = time.Second

// count counts a request, for storeUsed.
func (e *Embeddings) count(tokens int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	made := usage.Embeddings{Model: e.cfg.Name, Requests: 1, Tokens: int64(tokens), Cost: float64(tokens) * e.cfg.Price / 1e6}
	if err != nil {
		made.Failed = 1
	}
	e.add(made)
}

// add adds requests to those that are not stored yet. The caller holds mu.
func (e *Embeddings) add(made usage.Embeddings) {
	e.used.Model = made.Model
	e.used.Add(made)
	select {
	case e.called <- struct{}{}:
	default: // it is known already
	}
}

// storeUsed stores requests soon after they were made, until ctx ends, and then the last ones.
func (e *Embeddings) storeUsed(ctx context.Context) {
	for {
		select {
		case <-e.called:
		case <-ctx.Done():
			e.storeNow(context.WithoutCancel(ctx))
			return
		}
		_ = clock.Sleep(ctx, storeEvery) // which only fails when ctx ends: then they are stored at once
		e.storeNow(context.WithoutCancel(ctx))
	}
}

// storeNow stores the requests that were made since the last time. If it fails, the next time
// stores them, too.
func (e *Embeddings) storeNow(ctx context.Context) {
	e.storing.Lock()
	defer e.storing.Unlock()
	e.mu.Lock()
	made := e.used
	e.used = usage.Embeddings{}
	e.mu.Unlock()
	if made.Requests == 0 {
		return
	}
	if err := e.usage.AddEmbeddings(ctx, made); err != nil {
		e.cfg.Log.Warn("requests to the embeddings server not counted; trying again", "error", err)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.add(made)
	}
}
