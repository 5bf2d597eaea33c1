package discord

import (
	"encoding/json"
	"sync"
)

// event is what the intake is told: by the gateway, or by its own helpers.
type event struct {
	kind  string          // as the gateway calls it: "MESSAGE_CREATE"; or one of those below
	shard shard           // of the gateway's events
	data  json.RawMessage // of the gateway's events
	found *findings       // of placeLookedAt
}

// What helpers tell.
const (
	placeLookedAt   = "place looked at"
	serversWaitOver = "the wait for the servers is over"
)

// queue holds events in their order. It has no bound, so that the gateway's
// goroutine, which also answers heartbeats, never waits for the store.
type queue struct {
	mu    sync.Mutex
	list  []event
	ready chan struct{} // there are events
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) push(e event) {
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (q *queue) take() []event {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}
