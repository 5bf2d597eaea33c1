package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// When two goroutines of a node, such as loop and sender, hold a session, another node gets it after both
// have released it.
func TestSessionHasOneOwner(t *testing.T) {
	t.Parallel()
	url := database(t)
	first, second := join(t, config(t, url, "first")), join(t, config(t, url, "second"))
	const key = "telegram:chat:42"
	var releases []func()
	for range 2 {
		release, err := first.Claim(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	for _, release := range releases {
		var held *HeldError
		if _, err := second.Claim(t.Context(), key); !errors.As(err, &held) || held.Node != first.ID() || held.Name != "first" {
			t.Fatal(err)
		}
		if !first.Owns(key) || second.Owns(key) {
			t.Error("the wrong node owns the session")
		}
		release()
		release() // a second call does nothing
	}
	release, err := second.Claim(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if first.Owns(key) || !second.Owns(key) {
		t.Error("the session has not changed its owner")
	}
	if n := number(t, url, `SELECT count(*) FROM sessions WHERE channel = 'telegram'`); n != 1 {
		t.Error("sessions:", n)
	}
}

// An owner that is cut off stops owning its session before another node can claim it, and does not own it
// again when it has joined anew.
func TestSessionOfDeadOwnerIsTakenOver(t *testing.T) {
	t.Parallel()
	url := database(t)
	proxy := postgrestest.NewProxy(t, url)
	owner, other := join(t, quickConfig(t, proxy.URL(), "owner")), join(t, quickConfig(t, url, "other"))
	const key = "web:team"
	if _, err := owner.Claim(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	proxy.Interrupt()
	eventually(t, "taken over", func() bool {
		_, err := other.Claim(t.Context(), key)
		if err == nil && owner.Owns(key) {
			t.Fatal("two nodes own the session")
		}
		return err == nil
	})
	proxy.Resume()
	if err := owner.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if owner.Owns(key) {
		t.Error("a node owns a session that another one has taken over")
	}
	if _, err := owner.Claim(t.Context(), key); err == nil {
		t.Error("a node claims a session of a living one")
	}
}

// When several goroutines of three nodes claim a few sessions, two nodes never work the same one.
func TestClaimsExcludeEachOther(t *testing.T) {
	t.Parallel()
	url := database(t)
	const sessions = 3
	var working [sessions][3]atomic.Int64 // goroutines of each node
	var claimed atomic.Int64
	var all sync.WaitGroup
	for i := range 3 {
		n := join(t, config(t, url, fmt.Sprint(i)))
		for worker := range 4 {
			all.Go(func() {
				for round := range 25 {
					s := (worker + round) % sessions
					release, err := n.Claim(context.Background(), fmt.Sprint("api:", s))
					if err != nil {
						if held := new(HeldError); !errors.As(err, &held) {
							t.Error(err)
						}
						continue
					}
					claimed.Add(1)
					working[s][i].Add(1)
					time.Sleep(time.Millisecond) // in which others may begin
					for other := range working[s] {
						if other != i && working[s][other].Load() > 0 {
							t.Errorf("nodes %d and %d work a session", i, other)
						}
					}
					working[s][i].Add(-1)
					release()
				}
			})
		}
	}
	all.Wait()
	if claimed.Load() == 0 {
		t.Error("nobody got a session")
	}
}

// The answer to a claim is lost, so that the node does not know that it owns the session. Another session can't be released,
// since the database can't be reached. Other nodes get both sessions later, but not the one that the node works.
func TestSessionOwnedWithoutKnowingItIsReleased(t *testing.T) {
	t.Parallel()
	url := database(t)
	proxy := postgrestest.NewProxy(t, url)
	first, second := join(t, config(t, proxy.URL(), "first")), join(t, config(t, url, "second"))
	release, err := first.Claim(t.Context(), "api:released")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Claim(t.Context(), "api:kept"); err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, url, `INSERT INTO sessions (key, channel, created_at) VALUES ('api:claimed', 'api', 1)`)
	tx, err := postgrestest.Connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM sessions WHERE key = 'api:claimed' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan error, 1)
	go func() {
		_, err := first.Claim(context.Background(), "api:claimed")
		claimed <- err
	}()
	eventually(t, "the node waits for the session", func() bool {
		return number(t, url, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%UPDATE sessions SET owner%' AND datname = current_database()`) > 0
	})
	proxy.Interrupt()
	if err := waittest.Receive(t, claimed, "an answer to the node"); err == nil {
		t.Error("a node has a session without an answer of the database")
	}
	release()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the database has stored both", func() bool {
		return number(t, url, `SELECT count(*) FROM sessions WHERE owner = $1 AND key IN ('api:claimed', 'api:released')`, first.ID()) == 2
	})
	proxy.Resume()
	for _, key := range []string{"api:claimed", "api:released"} {
		eventually(t, "the other node has "+key, func() bool {
			_, err := second.Claim(t.Context(), key)
			return err == nil
		})
	}
	if _, err := second.Claim(t.Context(), "api:kept"); err == nil || !first.Owns("api:kept") {
		t.Error("the node has lost a session that it knows of:", err)
	}
}

// Thousands of sessions are claimed at once, as when a node starts with a backlog or takes one over. Claims that the server does not
// answer soon must not delay the renewals of the membership: the node would stop all its runs, polling and deliveries.
func TestClaimsLeaveRoomForRenewals(t *testing.T) {
	t.Parallel()
	url := database(t)
	postgrestest.Exec(t, url, `INSERT INTO sessions (key, channel, created_at) SELECT 'api:' || n, 'api', 0 FROM generate_series(1, 20) AS n`)
	n := join(t, quickConfig(t, url, "busy"))
	slow := postgrestest.Connect(t, url)
	for _, statement := range []string{`BEGIN`, `SELECT 1 FROM sessions FOR UPDATE`} {
		if _, err := slow.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var claiming sync.WaitGroup
	for i := range 20 {
		claiming.Go(func() {
			if release, err := n.Claim(context.Background(), fmt.Sprint("api:", i+1)); err == nil {
				release()
			}
		})
	}
	eventually(t, "claims wait", func() bool { return number(t, url, `SELECT count(*) FROM pg_locks WHERE NOT granted`) >= maxAsking })
	asked := time.Now()
	for renewed := asked; !renewed.After(asked); time.Sleep(10 * time.Millisecond) {
		if time.Since(asked) > 2*time.Second {
			t.Fatal("not renewed while claims wait")
		}
		n.mu.Lock()
		renewed = n.renewed
		n.mu.Unlock()
	}
	if _, err := slow.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	claiming.Wait()
}
