package cluster

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// Three nodes want a role, and its holder is cut off again and again, so that it dies: never do two work
// at once, each goes on from what the one before has saved, and somebody always takes over.
func TestRoleHasOneHolder(t *testing.T) {
	t.Parallel()
	url := database(t)
	var working atomic.Int32
	var mu sync.Mutex
	var holders []int
	var reached int64
	proxies := make([]*postgrestest.Proxy, 3)
	ctx, stop := context.WithCancel(t.Context())
	var nodes sync.WaitGroup
	for i := range proxies {
		proxies[i] = postgrestest.NewProxy(t, url)
		n := join(t, mortal(t, proxies[i].URL(), strconv.Itoa(i)))
		nodes.Go(func() {
			n.Hold(ctx, "telegram:42:poll", func(ctx context.Context, role *Role) error {
				if working.Add(1) != 1 {
					t.Error("two nodes work at once")
				}
				defer working.Add(-1)
				offset, _ := strconv.ParseInt(role.Data, 10, 64) // "" is 0
				mu.Lock()
				if offset < reached {
					t.Errorf("the offset went back from %d to %d", reached, offset)
				}
				holders = append(holders, i)
				mu.Unlock()
				for ctx.Err() == nil {
					if err := role.Save(ctx, strconv.FormatInt(offset+1, 10)); err == nil {
						offset++
						mu.Lock()
						reached = max(reached, offset)
						mu.Unlock()
					}
					time.Sleep(5 * time.Millisecond)
				}
				return nil
			})
		})
	}
	for takeovers := range 3 {
		var holder int
		eventually(t, "somebody takes the role", func() bool {
			mu.Lock()
			defer mu.Unlock()
			if len(holders) <= takeovers {
				return false
			}
			holder = holders[len(holders)-1]
			return true
		})
		for _, p := range proxies {
			p.Resume()
		}
		proxies[holder].Interrupt()
	}
	stop()
	nodes.Wait()
}

// A role that is given up is taken at once by a node that waits for it, also when every NOTIFY is
// lost.
func TestRoleIsTakenWithoutNotify(t *testing.T) {
	t.Parallel()
	url := database(t)
	proxy := postgrestest.NewProxy(t, url)
	first, second := join(t, config(t, url, "first")), join(t, config(t, proxy.URL(), "second"))
	proxy.DropNotices()
	role, err := first.Take(t.Context(), "shard:0/1")
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan int64)
	go second.Hold(t.Context(), "shard:0/1", func(ctx context.Context, role *Role) error {
		taken <- role.Term
		return nil
	})
	select {
	case <-taken:
		t.Fatal("the role was taken from its holder")
	case <-time.After(3 * testHeartbeat):
	}
	role.Release(t.Context())
	if term := waittest.Receive(t, taken, "the other node takes the role"); term != 2 {
		t.Error("term", term)
	}
	if err := role.Save(t.Context(), "too late"); err == nil {
		t.Error("a node saves the data of a role that it gave up")
	}
}

// Five nodes pass a gate as slowly as one.
func TestGateKeepsPace(t *testing.T) {
	t.Parallel()
	url := database(t)
	const passes, pace = 8, 60 * time.Millisecond
	began := time.Now()
	var nodes sync.WaitGroup
	for i := range passes / 2 {
		n := join(t, config(t, url, strconv.Itoa(i)))
		nodes.Go(func() {
			for range 2 {
				if err := n.Pass(t.Context(), "identify:0", pace); err != nil {
					t.Error(err)
				}
			}
		})
	}
	nodes.Wait()
	if took := time.Since(began); took < (passes-1)*pace {
		t.Errorf("%d passes in %v", passes, took)
	}
}
