package gateway

import (
	"runtime"
	"runtime/debug"
	"time"

	"parley/agentloop"
	"parley/channels"
)

// restDelay lets the delivery of the last replies, and the store's chores and
// idle connections, end first.
const restDelay = 8 * time.Second

// rest gives back what a crowd that has fallen silent has left: connections
// with their buffers, and memory, which the runtime by itself keeps for minutes.
func (g *Gateway) rest(model agentloop.Model) {
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
