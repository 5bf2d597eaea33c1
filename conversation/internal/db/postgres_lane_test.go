package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/cluster"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// emptyDatabase has a further table, in which no constraint keeps a row from being stored twice.
var emptyDatabase = postgrestest.Template{Make: func(url string) error {
	d, err := Open(context.Background(), Config{Path: url, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	err = d.Write(context.Background(), func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE written (n bigint)`)
		return err
	})
	return errors.Join(err, d.Close())
}}

// openServer opens a database with the patience of its lanes; the zero value is that of a gateway.
func openServer(t *testing.T, url string, p patience) *DB {
	t.Helper()
	return openServerLogging(t, url, p, slog.New(slog.DiscardHandler))
}

func openServerLogging(t *testing.T, url string, p patience, log *slog.Logger) *DB {
	t.Helper()
	d, err := Open(t.Context(), Config{Path: url, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	for _, lane := range d.engine.(*postgresServer).lanes {
		lane.group.take()
		if p != (patience{}) {
			lane.patience = p
		}
		lane.group.give()
	}
	return d
}

func writeNumber(d *DB, session string, n int) error {
	return d.WriteSession(context.Background(), session, func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO written VALUES (?)`, n)
		return err
	})
}

// times returns how often a number is stored, as another client of the server sees it.
func times(t *testing.T, url string, n int) (times int) {
	t.Helper()
	if err := postgrestest.Connect(t, url).QueryRow(t.Context(), `SELECT count(*) FROM written WHERE n = $1`, n).Scan(&times); err != nil {
		t.Fatal(err)
	}
	return times
}

// The connection breaks during a COMMIT, before or after the server has it. The message is stored once either way.
func TestLaneStoresOnceWhenItsCommitIsLost(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	d := openServer(t, proxy.URL(), patience{})
	for n := range 6 {
		proxy.LoseCommit(n%2 == 0)
		if err := writeNumber(d, "a", n); err != nil {
			t.Error(err)
		}
		if got := times(t, url, n); got != 1 {
			t.Errorf("write %d is stored %d times", n, got)
		}
	}
}

// The server crashes twice while chats go on, and recovers. Each write that succeeded is stored, and none twice.
func TestLanesLoseNothingWhenTheServerCrashes(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{Fsync: true})
	url := server.Database(t)
	if err := emptyDatabase.Make(url); err != nil {
		t.Fatal(err)
	}
	d := openServer(t, url, patience{server: time.Minute, transaction: time.Minute})
	var done atomic.Int64
	var stop atomic.Bool
	var writers sync.WaitGroup
	last := make([]int, 8) // the number of rows of each writer
	for w := range last {
		writers.Go(func() {
			for !stop.Load() {
				if err := writeNumber(d, fmt.Sprint(w), w<<20+last[w]); err != nil {
					t.Error(err)
					return
				}
				last[w]++
				done.Add(1)
			}
		})
	}
	for range 2 {
		for start, deadline := done.Load(), time.Now().Add(90*time.Second); done.Load() < start+100 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		server.Stop(t, "immediate")
		server.Start(t)
	}
	stop.Store(true)
	writers.Wait()
	var all, different int64
	if err := postgrestest.Connect(t, url).QueryRow(t.Context(), `SELECT count(*), count(DISTINCT n) FROM written`).Scan(&all, &different); err != nil {
		t.Fatal(err)
	}
	if all != different || all != done.Load() {
		t.Errorf("%d rows are stored, %d of them different; %d writes succeeded", all, different, done.Load())
	}
}

// The server stays away for longer than a write waits: the writer is told so, and goes on when it is back.
func TestLaneReportsServerThatStaysAway(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	d := openServer(t, proxy.URL(), patience{server: 3 * time.Second, transaction: time.Minute})
	if err := writeNumber(d, "a", 1); err != nil {
		t.Fatal(err)
	}
	proxy.Interrupt()
	err := writeNumber(d, "a", 2)
	checkAway(t, d, err)
	proxy.Resume()
	if err := writeNumber(d, "a", 3); err != nil || d.Moved() != nil {
		t.Error(err, d.Moved())
	}
	for n, want := range []int{0, 1, 0, 1} {
		if got := times(t, url, n); got != want {
			t.Errorf("write %d is stored %d times, want %d", n, got, want)
		}
	}
}

// The server is gone in the middle of a COMMIT for longer than a lane asks what became of it. The lane says that it does not know,
// and goes on when the server is back. It does not take itself for dead.
func TestLaneGoesOnAfterACommitOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	said := make(chan string, 1000)
	d := openServerLogging(t, proxy.URL(), patience{server: time.Second, transaction: time.Minute}, slog.New(slog.NewTextHandler(lines(said), nil)))
	d.StopChores() // they write, too
	proxy.LoseServerAtCommit()
	err := writeNumber(d, "a", 1)
	if err == nil || !strings.Contains(err.Error(), "it is not known whether the latest write was stored") {
		t.Errorf("the write: %v", err)
	}
	proxy.Resume()
	for end := time.Now().Add(waittest.Patience); d.Moved() != nil; d.engine.(*postgresServer).probe(t.Context()) {
		if time.Now().After(end) {
			t.Fatal("the server is not reached again")
		}
	}
	if err := writeNumber(d, "a", 2); err != nil {
		t.Errorf("the next write: %v", err)
	}
	if times(t, url, 1) != 1 || times(t, url, 2) != 1 {
		t.Error("stored:", times(t, url, 1), times(t, url, 2))
	}
	for len(said) > 0 {
		if line := <-said; strings.Contains(line, cluster.ErrFenced.Error()) {
			t.Errorf("the log has %q", line)
		}
	}
}

// lines sends each line of a log.
type lines chan<- string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// checkAway checks the error of a write while the server can't be reached.
func checkAway(t *testing.T, d *DB, err error) {
	t.Helper()
	const words = "the database server can't be reached; nothing is stored or answered until it is back"
	if !errors.Is(err, ErrMoved) || !IsTemporary(err) || FaultOf(err) != Unreachable || !hasPrefix(err, words) || !hasPrefix(d.Moved(), words) {
		t.Errorf("the write: %v; the state: %v", err, d.Moved())
	}
}

func hasPrefix(err error, words string) bool {
	return err != nil && len(err.Error()) > len(words) && err.Error()[:len(words)] == words
}

// The server hangs: its connections stay open and nothing answers. A lane gives up, and goes on when the server is back.
func TestLaneGivesUpOnHangingServer(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	d := openServer(t, proxy.URL(), patience{server: 2 * time.Second, transaction: 2 * time.Second})
	err := d.Write(t.Context(), func(ctx context.Context, tx Tx) error {
		proxy.Hang()
		_, err := tx.ExecContext(ctx, `INSERT INTO written VALUES (1)`)
		return err
	})
	checkAway(t, d, err)
	proxy.Resume()
	written := 2
	for deadline := time.Now().Add(90 * time.Second); writeNumber(d, "", written) != nil; written++ { // of one that fails it may not be known whether it was stored
		if time.Now().After(deadline) {
			t.Fatal("the lane does not go on")
		}
	}
	var limit string
	if err := d.Write(t.Context(), func(ctx context.Context, tx Tx) error {
		return tx.QueryRowContext(ctx, `SELECT current_setting('statement_timeout')`).Scan(&limit)
	}); err != nil || limit != "15s" {
		t.Errorf("the server ends a statement after %q, %v", limit, err)
	}
	if times(t, url, 1) != 0 || times(t, url, written) != 1 {
		t.Error("stored:", times(t, url, 1), times(t, url, written))
	}
}

// A transaction that the server rolls back because of a conflict with another is repeated.
func TestLaneRepeatsCollisions(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	d := openServer(t, url, patience{})
	for n, code := range []string{"40001", "40P01"} {
		tries := 0
		err := d.Write(t.Context(), func(ctx context.Context, tx Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO written VALUES (?)`, n); err != nil {
				return err
			}
			if tries++; tries == 3 {
				return nil
			}
			_, err := tx.ExecContext(ctx, `DO $$ BEGIN RAISE SQLSTATE '`+code+`'; END $$`)
			return err
		})
		if got := times(t, url, n); err != nil || tries != 3 || got != 1 {
			t.Errorf("%s: %v after %d tries, stored %d times", code, err, tries, got)
		}
	}
}

// declareDead declares a node dead. It waits for transactions of the node that are under way, and comes before those that begin later.
func declareDead(ctx context.Context, conn *pgx.Conn, node int64) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `LOCK TABLE lanes`)
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM lanes WHERE node_id = $1`, node)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE nodes SET dead_at = 1 WHERE id = $1`, node)
		}
		return err
	})
}

// When another gateway has taken over the sessions of one that was paused for long, a write of the paused one is refused,
// and not repeated once it has joined again. Later writes work.
func TestFencedLaneWritesNothing(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	d := openServer(t, url, patience{})
	if err := writeNumber(d, "a", 1); err != nil {
		t.Fatal(err)
	}
	dead := d.Node().ID()
	joined := make(chan struct{}, 1)
	d.Node().OnChange(func() {
		select {
		case joined <- struct{}{}:
		default:
		}
	})
	if err := declareDead(t.Context(), postgrestest.Connect(t, url), dead); err != nil {
		t.Fatal(err)
	}
	err := writeNumber(d, "a", 2)
	if !errors.Is(err, cluster.ErrFenced) || !errors.Is(err, ErrMoved) ||
		!hasPrefix(err, "the database refuses writes of this process until it has joined the other gateways again") {
		t.Error(err)
	}
	for d.Node().ID() == dead {
		select {
		case <-joined:
		case <-time.After(90 * time.Second):
			t.Fatal("the node does not join anew")
		}
	}
	if err := writeNumber(d, "a", 3); err != nil || d.Moved() != nil {
		t.Error(err, d.Moved())
	}
	if times(t, url, 2) != 0 || times(t, url, 3) != 1 {
		t.Error("stored:", times(t, url, 2), times(t, url, 3))
	}
}

// When the answer to a COMMIT is lost, and the node is declared dead before it can check, the write may have happened:
// the node returns an error, and does not repeat the write.
func TestFencedLaneDoesNotRepeatLostCommit(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	d := openServer(t, proxy.URL(), patience{})
	other, buried := postgrestest.Connect(t, url), make(chan error, 1)
	tries := 0
	err := d.Write(t.Context(), func(ctx context.Context, tx Tx) error {
		if tries++; tries > 1 {
			return errors.New("repeated")
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO written VALUES (1)`); err != nil {
			return err
		}
		pid := int64(other.PgConn().PID())
		go func() { buried <- declareDead(context.Background(), other, d.Node().ID()) }()
		for waits := false; !waits; {
			if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pid = ? AND NOT granted)`, pid).Scan(&waits); err != nil {
				return err
			}
		}
		proxy.LoseCommit(true)
		return nil
	})
	if !errors.Is(err, cluster.ErrFenced) || !strings.Contains(err.Error(), "it is not known whether the latest write was stored") || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
	select {
	case err := <-buried:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(90 * time.Second):
		t.Fatal("the node is not declared dead")
	}
	if got := times(t, url, 1); got != 1 {
		t.Errorf("stored %d times", got)
	}
}

func TestPanicInAWriteToAServerLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	testPanic(t, openServer(t, emptyDatabase.Database(t), defaultPatience))
}

// Two nodes that write in the same sessions at once lock them in the same order, so that neither waits for the other until the server
// ends one of them. The messages of a batch stay in the order in which they came.
func TestSessionsAreLockedInTheirOrder(t *testing.T) {
	t.Parallel()
	var done []string
	note := func(what string) task {
		return func(context.Context, Tx) error {
			done = append(done, what)
			return nil
		}
	}
	group := []write{
		{work: work{check: note("check c"), parts: []Part{{"c", note("c1")}}}},
		{work: work{parts: []Part{{"d", note("d1")}, {"a", note("a1")}}}},
		{work: work{parts: []Part{{"b", note("b1")}}}},
		{work: work{check: note("check a"), parts: []Part{{"a", note("a2")}}}},
		{work: work{parts: []Part{{"c", note("c2")}}}},
		{work: alone(note("alone"))},
	}
	for _, task := range tasksOf(group) {
		for _, do := range task.Do {
			if err := do(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := strings.Join(done, ", "), "check a, check c, d1, a1, a2, b1, c1, c2"; got != want {
		t.Errorf("a group of writes does %s; want %s", got, want)
	}
}

// During a failover, the gateway's connections were made to a server that takes no writes, and that goes on as a standby. Once the
// database's address leads to a server that takes writes, the gateway works again by itself.
func TestGatewayLeavesAServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	d := openServer(t, url, patience{})
	admin := postgrestest.Connect(t, url)
	set := func(statement string) {
		if _, err := admin.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I `+statement+`', current_database()); END $$`); err != nil {
			t.Fatal(err)
		}
	}
	set(`SET default_transaction_read_only = on`) // for the connections that are made from now on
	if _, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	await := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(waittest.Patience); !holds(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("waited in vain for " + what)
			}
		}
	}
	readOnly := func() (long, short string) { // by connections for long reads and short ones
		const query = `SELECT current_setting('transaction_read_only')`
		_ = d.QueryRowContext(t.Context(), query).Scan(&long)
		_ = ShortRow(t.Context(), d, query).Scan(&short)
		return long, short
	}
	node := d.Node()
	await("connections to the server that takes no writes", func() bool {
		long, short := readOnly()
		return long == "on" && short == "on"
	})
	await("writes to be refused", func() bool {
		return FaultOf(writeNumber(d, "a", 1)) == Unwritable && FaultOf(writeNumber(d, "b", 1)) == Unwritable
	})
	await("the membership to end", func() bool { return !node.Valid() })
	set(`RESET default_transaction_read_only`)
	await("the node to be valid", node.Valid)
	await("writes to succeed", func() bool { return writeNumber(d, "a", 2) == nil && writeNumber(d, "b", 3) == nil })
	await("reads from that server, too", func() bool {
		long, short := readOnly()
		return long == "off" && short == "off"
	})
}
