package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// Nodes of the tests renew more often than those of a gateway, and have a long TTL, so that none is declared dead on a
// busy machine. Tests in which a node has to die use quickConfig.
const (
	testHeartbeat = 200 * time.Millisecond
	testTTL       = time.Minute
	quickTTL      = 5 * time.Second
)

// tables creates the tables of the store in a database.
func tables(t testing.TB, url string) {
	t.Helper()
	files, err := filepath.Glob("../conversation/internal/db/migrations/postgres/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal("no migrations for PostgreSQL", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		postgrestest.Exec(t, url, string(text))
	}
	postgrestest.Exec(t, url, "CREATE TABLE written (node_id bigint NOT NULL, lane bigint NOT NULL)")
}

func database(t testing.TB) string {
	t.Helper()
	url := postgrestest.Database(t)
	tables(t, url)
	return url
}

func number(t testing.TB, url, query string, args ...any) (n int64) {
	t.Helper()
	conn := postgrestest.Connect(t, url)
	defer conn.Close(context.Background()) // a test may ask many times
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// config returns the configuration of a node.
func config(t testing.TB, url, name string) Config {
	t.Helper()
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Database: conn, Name: name, Command: Serves, Heartbeat: testHeartbeat, TTL: testTTL,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)).With("on", name)}
}

// quickConfig returns the configuration of a node in tests in which one dies.
func quickConfig(t testing.TB, url, name string) Config {
	t.Helper()
	c := config(t, url, name)
	c.TTL = quickTTL
	return c
}

// join joins a node that leaves when the test ends.
func join(t testing.TB, c Config) *Node {
	t.Helper()
	n, err := Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.stop() // Leave fails when the database is gone
		n.stopped.Wait()
		n.mu.Lock()
		n.expiry.Stop()
		n.mu.Unlock()
		n.pool.Close()
	})
	return n
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute and a half: " + what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// opened opens a database for writers.
func opened(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// write writes one row in a fenced transaction, as the store does. committed is meaningful
// without an error.
func write(ctx context.Context, db *sql.DB, lane *Lane) (id int64, committed bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, false, err
	}
	defer tx.Rollback()
	stamp, err := lane.Begin(ctx, tx)
	if err != nil {
		return 0, false, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO written VALUES ($1, $2)`, stamp.id, lane.number); err != nil {
		return stamp.id, false, err
	}
	if err := tx.Commit(); err != nil {
		committed, err = lane.Resolve(ctx, stamp)
		return stamp.id, committed, err
	}
	lane.Committed(stamp)
	return stamp.id, true, nil
}

// When a node is declared dead during a commit, either the commit succeeds before, and the node that takes
// over sees it, or it stores nothing.
func TestTakeoverAndCommitNeverBothSucceed(t *testing.T) {
	t.Parallel()
	each := 1000 // of both orders
	if testing.Short() {
		each = 50
	}
	url := database(t)
	c := config(t, url, "owner")
	c.Heartbeat, c.TTL = time.Hour, 2*time.Hour // this test declares it dead
	owner := join(t, c)
	owner.stop() // it does not renew any more, and joins anew only here
	owner.stopped.Wait()
	db := opened(t, url)
	lane := owner.Lane(1)
	outcomes := map[bool]int{}
	pause := 300 * time.Microsecond // before the takeover: so long that either comes first
	for min(outcomes[true], outcomes[false]) < each {
		id := owner.ID()
		var seen int64
		var buried [2]bool
		var takeover sync.WaitGroup
		for observer := range buried { // two observers declare at once
			takeover.Go(func() {
				time.Sleep(pause)
				var err error
				if buried[observer], err = owner.bury(t.Context(), id, anyExpiry); err != nil {
					t.Error(err)
				}
			})
		}
		written, committed, err := write(t.Context(), db, lane)
		if err != nil && !errors.Is(err, ErrFenced) || err == nil && written != id {
			t.Fatal(err)
		}
		takeover.Wait()
		if buried[0] == buried[1] {
			t.Fatalf("declared dead by %v of two observers", buried)
		}
		if err := owner.pool.QueryRow(t.Context(), `SELECT count(*) FROM written WHERE node_id = $1`, id).Scan(&seen); err != nil {
			t.Fatal(err)
		}
		if committed != (seen == 1) {
			t.Fatalf("the writer was told %v, the others see %d rows", committed, seen)
		}
		outcomes[committed]++
		if committed {
			pause -= pause / 8
		} else {
			pause += pause/8 + time.Microsecond
		}
		if _, _, err := write(t.Context(), db, lane); !errors.Is(err, ErrFenced) {
			t.Fatalf("a dead node writes: %v", err)
		}
		if err := owner.join(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("commits that came first, and takeovers:", outcomes[true], outcomes[false])
}

// When the connection breaks during a COMMIT, the node finds out whether the commit succeeded.
func TestLostCommitIsResolved(t *testing.T) {
	t.Parallel()
	url := database(t)
	n := join(t, config(t, url, "writer"))
	lane := n.Lane(0)
	proxy := postgrestest.NewProxy(t, url)
	db := opened(t, proxy.URL())
	want := int64(0)
	for i := range 6 {
		received := i%2 == 0
		proxy.LoseCommit(received)
		_, committed, err := write(t.Context(), db, lane)
		if err != nil {
			t.Fatal(err)
		}
		if committed {
			want++
		}
		if committed != received {
			t.Errorf("the server received the commit: %v; the node says: %v", received, committed)
		}
		if got := number(t, url, `SELECT count(*) FROM written`); got != want {
			t.Fatalf("%d rows are stored, want %d", got, want)
		}
	}
	if _, committed, err := write(t.Context(), db, lane); err != nil || !committed {
		t.Fatal("the lane does not go on", err)
	}
}

// When the connection also breaks while the node checks whether its commit succeeded, it checks again, and does not take its
// own first check for the commit.
func TestLostCommitIsResolvedInSeveralTries(t *testing.T) {
	t.Parallel()
	url := database(t)
	proxy := postgrestest.NewProxy(t, url)
	n := join(t, config(t, proxy.URL(), "writer"))
	db := opened(t, url)
	lane := n.Lane(0)
	for _, received := range []bool{true, false} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		stamp, err := lane.Begin(t.Context(), tx)
		end := tx.Rollback
		if received {
			end = tx.Commit
		}
		if err := errors.Join(err, end()); err != nil {
			t.Fatal(err)
		}
		proxy.LoseCommit(true)
		if _, err := lane.Resolve(t.Context(), stamp); err == nil {
			t.Error("the question got an answer over a broken connection")
		}
		if committed, err := lane.Resolve(t.Context(), stamp); err != nil || committed != received {
			t.Errorf("committed: %v, %v, want %v", committed, err, received)
		}
	}
	if _, committed, err := write(t.Context(), db, lane); err != nil || !committed {
		t.Fatal("the lane does not go on", err)
	}
}

// After an outage of several TTLs, no node declares another one dead, since all of them have expired.
func TestOutageDeclaresNoNodeDead(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{})
	url := server.Database(t)
	tables(t, url)
	var nodes []*Node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, join(t, quickConfig(t, url, name)))
	}
	ids := memberIDs(t, nodes[0])
	working, cancel := nodes[1].While(t.Context())
	defer cancel()
	server.Stop(t, "immediate")
	waittest.Receive(t, working.Done(), "the node notices that its database is gone")
	if !errors.Is(context.Cause(working), ErrLost) {
		t.Error("the node's work ended with", context.Cause(working))
	}
	time.Sleep(2 * quickTTL)
	for _, n := range nodes {
		if n.Valid() {
			t.Error("a node without a database is valid:", n.Name())
		}
	}
	server.Start(t)
	for _, n := range nodes {
		if err := n.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * quickTTL) // enough time to declare each other dead
	if now := memberIDs(t, nodes[0]); fmt.Sprint(now) != fmt.Sprint(ids) {
		t.Errorf("nodes %v are %v after the outage", ids, now)
	}
}

func memberIDs(t testing.TB, n *Node) (ids []int64) {
	t.Helper()
	members, err := n.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	return ids
}

// A node that is cut off from the database stops by itself before the others declare it dead, and joins
// anew when it reaches the database again.
func TestNodeThatIsCutOffJoinsAnew(t *testing.T) {
	t.Parallel()
	url := database(t)
	proxy := postgrestest.NewProxy(t, url)
	other := join(t, quickConfig(t, url, "other"))
	n := join(t, quickConfig(t, proxy.URL(), "cut off"))
	first := n.ID()
	proxy.Interrupt()
	eventually(t, "declared dead", func() bool {
		dead := number(t, url, `SELECT count(*) FROM nodes WHERE id = $1 AND dead_at IS NOT NULL`, first) == 1
		if dead && n.Valid() {
			t.Fatal("declared dead while it was valid")
		}
		return dead
	})
	if !other.Valid() {
		t.Error("the other node is not valid")
	}
	proxy.Resume()
	if err := n.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.ID() == first {
		t.Error("the node goes on as the dead one")
	}
	if id, committed, err := write(t.Context(), opened(t, url), n.Lane(0)); err != nil || !committed || id != n.ID() {
		t.Error("the node does not write after it joined anew:", err)
	}
}

// Nodes whose clocks are an hour wrong, or jump by an hour, are not declared dead, declare no others dead, and use the same time
// as all others.
func TestWrongClocksKillNobody(t *testing.T) {
	t.Parallel()
	url := database(t)
	var mu sync.Mutex
	jump := time.Duration(0)
	nodes := []*Node{join(t, quickConfig(t, url, "right"))}
	for name, off := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		c := quickConfig(t, url, name)
		c.Now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Round(0).Add(off + jump) // Round removes the monotonic clock
		}
		nodes = append(nodes, join(t, c))
	}
	tells := func(n *Node) time.Time { return n.At(n.config.Now()) }
	together := func() bool {
		now := tells(nodes[0])
		return tells(nodes[1]).Sub(now).Abs() < time.Minute && tells(nodes[2]).Sub(now).Abs() < time.Minute
	}
	if !together() {
		t.Errorf("nodes tell %v, %v and %v", tells(nodes[0]), tells(nodes[1]), tells(nodes[2]))
	}
	ids := memberIDs(t, nodes[0])
	for range 4 {
		mu.Lock()
		jump += time.Hour
		mu.Unlock()
		time.Sleep(quickTTL / 2)
	}
	for _, n := range nodes {
		if err := n.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if now := memberIDs(t, nodes[0]); fmt.Sprint(now) != fmt.Sprint(ids) {
		t.Errorf("nodes %v are now %v", ids, now)
	}
	eventually(t, "one time on all nodes", together)
}

// A node that leaves is removed at once, and its roles are free.
func TestLeaveIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	url := database(t)
	stays := join(t, config(t, url, "stays"))
	c := config(t, url, "leaves")
	c.Version, c.URL = "2.0", "http://leaves:8080"
	leaves, err := Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if role, err := leaves.Take(t.Context(), "poll"); role == nil {
		t.Fatal("a free role is not taken:", err)
	}
	members, err := stays.Members(t.Context())
	if err != nil || len(members) != 2 {
		t.Fatal(members, err)
	}
	m := members[1]
	if m.Name != "leaves" || m.Version != "2.0" || m.URL != "http://leaves:8080" || fmt.Sprint(m.Roles) != "[poll]" || m.Heartbeat < 0 || m.Heartbeat > testTTL {
		t.Errorf("%+v", m)
	}
	if role, _ := stays.Take(t.Context(), "poll"); role != nil {
		t.Error("two nodes have a role")
	}
	if err := leaves.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if role, err := stays.Take(t.Context(), "poll"); role == nil || role.Term != 2 {
		t.Error("the role of a node that left is not taken:", role, err)
	}
	if ids := memberIDs(t, stays); len(ids) != 1 {
		t.Error("members:", ids)
	}
	if number(t, url, `SELECT count(*) FROM lanes`) != defaultLanes {
		t.Error("the node that left has lanes")
	}
}

// A node is killed, and the database's clock is put back by an hour, as after a failover to a server whose clock is behind. The others
// take its sessions over as soon as those of any other dead node, and not an hour later.
func TestDeadNodeIsFoundAfterTheDatabaseClockWasPutBack(t *testing.T) {
	t.Parallel()
	url := database(t)
	killed, other := join(t, quickConfig(t, url, "killed")), join(t, quickConfig(t, url, "other"))
	killed.stop()
	killed.stopped.Wait()
	postgrestest.Exec(t, url, fmt.Sprintf(`UPDATE nodes SET expires_at = expires_at + 3600000 WHERE id = %d`, killed.ID()))
	eventually(t, "declared dead", func() bool {
		if !other.Valid() {
			t.Fatal("the other node is not valid")
		}
		return number(t, url, `SELECT count(*) FROM nodes WHERE id = $1 AND dead_at IS NOT NULL`, killed.ID()) == 1
	})
}

// The database answers so slowly while a node joins, as during the migration of another one, that the membership counts no more when it
// is stored. The gateway must not crash, but wait until it can renew the membership.
func TestNodeThatJoinsSlowlyBecomesValidLater(t *testing.T) {
	t.Parallel()
	c := config(t, database(t), "slow")
	var slow atomic.Bool
	var passed atomic.Int64
	c.Now = func() time.Time { // every look at the clock is a TTL after the one before
		if slow.Load() {
			passed.Add(int64(c.TTL))
		}
		return time.Now().Add(time.Duration(passed.Load()))
	}
	slow.Store(true)
	n := join(t, c)
	if n.Valid() {
		t.Error("valid without a renewal")
	}
	working, cancel := n.While(t.Context())
	defer cancel()
	<-working.Done()
	if why := context.Cause(working); !errors.Is(why, ErrLost) {
		t.Error(why)
	}
	slow.Store(false)
	if err := n.Await(t.Context()); err != nil {
		t.Error(err)
	}
}
