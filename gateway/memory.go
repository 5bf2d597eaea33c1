package gateway

import (
	"runtime"
	"runtime/debug"
	"time"

	"parley/agentloop"
	"parley/channels"
)

// releaseDelay lets the delivery of the last replies, and the store's chores and
// idle connections, end first.
const releaseDelay = 8 * time.Second

// releaseMemory returns the memory of many sessions that have fallen silent to
// the system, which the runtime by itself does over minutes: 10,000 sessions
// that spoke once leave 6 MiB, and 40 MiB without it (`make bench`). Closing
// idle connections and trimming the heap of C are 5 MiB of that each.
func (g *Gateway) releaseMemory(model agentloop.Model) {
	if idle, ok := model.(channels.IdleReleaser); ok {
		idle.ReleaseIdle()
	}
	for _, c := range g.channels {
		if idle, ok := c.Source.(channels.IdleReleaser); ok {
			idle.ReleaseIdle()
		}
	}
	runtime.GC() // what a sync.Pool holds goes with the second collection
	debug.FreeOSMemory()
	trimC()
}
