package embedding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/conversation/vectors"
)

const (
	keptQueries = 256              // queries whose vectors are kept: the pages of one search have the same query
	restFirst   = time.Second      // how long no search asks the server after a failure; doubles from failure to failure
	restMost    = 30 * time.Second // the longest such pause
)

// queries keeps the vectors of the newest queries, and spares searches the wait for a server that does not answer.
type queries struct {
	mu     sync.Mutex
	known  map[string][]float32
	order  []string // keys of known, the oldest first
	rest   time.Duration
	closed time.Time // until when no query is sent
}

func newQueries() queries { return queries{known: map[string][]float32{}} }

// errResting says that the server has failed a moment ago, so that a query is not sent to it.
var errResting = errors.New("the embeddings server does not answer at the moment")

// EmbedQuery returns the vector of a query, for the store's SetEmbedder.
func (e *Embeddings) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	if e.foreign.Load() {
		return nil, vectors.ErrOtherModel
	}
	vector, err := e.queries.get(text)
	if vector != nil || err != nil {
		return vector, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.QueryTimeout, fmt.Errorf("longer than %s", e.cfg.QueryTimeout))
	defer cancel()
	made, err := e.counted(ctx, true, []string{text})
	if err != nil {
		if !errors.Is(context.Cause(ctx), context.Canceled) { // who asked has not gone away
			if first := e.queries.failed(time.Now(), askedBy(err)); first {
				e.cfg.Log.Warn("query not embedded; it is searched for by its words", "error", err)
			}
		}
		return nil, err
	}
	e.queries.add(text, made[0])
	return made[0], nil
}

// get returns the vector of a query, or nil if it is not known. It fails while the server rests.
func (q *queries) get(text string) ([]float32, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if vector := q.known[text]; vector != nil {
		return vector, nil
	}
	if time.Now().Before(q.closed) {
		return nil, errResting
	}
	return nil, nil
}

func (q *queries) add(text string, vector []float32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rest = 0
	if q.known[text] != nil {
		return
	}
	if len(q.order) == keptQueries {
		delete(q.known, q.order[0])
		q.order = q.order[1:]
	}
	q.known[text], q.order = vector, append(q.order, text)
}

// failed has searches leave the server alone for a while, and for as long as it asks for. first reports whether it worked before.
func (q *queries) failed(now time.Time, asked time.Duration) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first = q.rest == 0
	q.rest = min(max(2*q.rest, restFirst), restMost)
	q.closed = now.Add(max(q.rest, asked))
	return first
}
