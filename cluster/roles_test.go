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

// While three nodes want a role, its holders are cut off one after the other: another node always takes the
// role over, continues from the saved data, and never works at the same time as the holder before.
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
		n := join(t, quickConfig(t, proxies[i].URL(), strconv.Itoa(i)))
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

// A waiting node takes a released role at once, also when every NOTIFY is lost.
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

// When a node stops wanting a role just when the database gives it the role, another node gets it all the same. Otherwise
// the role would be kept by a live node that does not use it.
func TestNodeThatNoLongerWantsARoleReleasesIt(t *testing.T) {
	t.Parallel()
	url := database(t)
	first, second := join(t, config(t, url, "first")), join(t, config(t, url, "second"))
	stopWanting := takeBehindLock(t, url, first, "identify:7")
	stopWanting(nil)
	eventually(t, "the other node has the role", func() bool { return takes(t, second, "identify:7") })
}

// When the answer to a node that takes a role is lost, it does not know that it has the role. Its next renewals
// release the role.
func TestRoleTakenWithoutKnowingItIsReleased(t *testing.T) {
	t.Parallel()
	url := database(t)
	proxy := postgrestest.NewProxy(t, url)
	first, second := join(t, config(t, proxy.URL(), "first")), join(t, config(t, url, "second"))
	kept, err := first.Take(t.Context(), "identify:6")
	if err != nil || kept == nil {
		t.Fatal(kept, err)
	}
	stopWanting := takeBehindLock(t, url, first, "identify:7")
	stopWanting(proxy.Interrupt)
	eventually(t, "the database has stored the role", func() bool {
		return number(t, url, `SELECT count(*) FROM roles WHERE name = 'identify:7' AND node_id = $1`, first.ID()) == 1
	})
	proxy.Resume()
	eventually(t, "the other node has the role", func() bool { return takes(t, second, "identify:7") })
	if err := kept.Check(t.Context()); err != nil {
		t.Error("the node has lost a role that it knows of:", err)
	}
}

// takeBehindLock makes a node take a role while a lock in the database makes it wait. stopWanting cancels the node's
// context, calls breakOff if it is not nil, releases the lock, and waits until the node has failed to take the role.
func takeBehindLock(t *testing.T, url string, n *Node, name string) (stopWanting func(breakOff func())) {
	t.Helper()
	conn := postgrestest.Connect(t, url)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE roles IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan *Role, 1)
	go func() {
		role, _ := n.Take(ctx, name)
		answered <- role
	}()
	eventually(t, "the node waits for the role", func() bool {
		return number(t, url, `SELECT count(*) FROM pg_locks WHERE relation = 'roles'::regclass AND NOT granted`) > 0
	})
	return func(breakOff func()) {
		t.Helper()
		cancel()
		if breakOff != nil {
			breakOff()
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if role := waittest.Receive(t, answered, "an answer to the node"); role != nil {
			t.Error("a node that no longer wants a role has got it")
		}
	}
}

func takes(t *testing.T, n *Node, name string) bool {
	t.Helper()
	role, err := n.Take(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return role != nil
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

// The database's clock was ahead by an hour when a gate was passed, and was put right. Discord's shards do not wait for an hour until
// they may connect.
func TestGateOpensAfterTheDatabaseClockWasPutBack(t *testing.T) {
	t.Parallel()
	url := database(t)
	n := join(t, config(t, url, "one"))
	const pace = 50 * time.Millisecond
	if err := n.Pass(t.Context(), "identify:0", pace); err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, url, `UPDATE gates SET free_at = free_at + 3600000`)
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Patience)
	defer cancel()
	if err := n.Pass(ctx, "identify:0", pace); err != nil {
		t.Error(err)
	}
}
