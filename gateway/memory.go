package gateway

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"parley/channels"
	"parley/internal/clock"
	"parley/llm"
)

// releaseDelay lets the delivery of the last replies, and the store's chores and
// idle connections, end first.
const releaseDelay = 8 * time.Second

// The pages of the program's file are released first when the start has ended, and
// then again and again.
const (
	startDelay      = 2 * time.Second
	releaseInterval = time.Minute
)

// releaseUnused keeps resident what is used of the program's file, of which the kernel
// maps up to 2 MiB for one byte, and keeps them as long as there is room. An idle
// gateway has 21 MiB resident, and 34 to 44 MiB without this (`make bench`). It costs
// less than a millisecond of page faults a minute.
func (g *Gateway) releaseUnused(ctx context.Context) {
	for delay := startDelay; clock.Sleep(ctx, delay) == nil; delay = releaseInterval {
		releaseProgram()
	}
}

// releaseMemory returns the memory of many sessions that have fallen silent to
// the system, which the runtime by itself does over minutes: 10,000 sessions
// that spoke once leave 6 MiB, and 40 MiB without it (`make bench`). Closing
// idle connections and trimming the heap of C are 5 MiB of that each.
func (g *Gateway) releaseMemory(models *llm.Models) {
	models.ReleaseIdle()
	for _, c := range g.channels {
		if idle, ok := c.Source.(channels.IdleReleaser); ok {
			idle.ReleaseIdle()
		}
	}
	runtime.GC() // what a sync.Pool holds goes with the second collection
	debug.FreeOSMemory()
	trimC()
}
