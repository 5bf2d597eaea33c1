package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func mustOpen(t testing.TB, chores ...Chore) *DB {
	t.Helper()
	d, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "test.db"), Log: slog.New(slog.DiscardHandler), Chores: chores})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// insert returns a write of one row.
func insert(name string) func(ctx context.Context, tx Tx) error {
	return func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO cursors (name, value, updated_at) VALUES (?, '', 1)`, name)
		return err
	}
}

// hold makes a write wait within its transaction until release is called.
func hold(d *DB) (release func()) {
	busy, block := make(chan struct{}), make(chan struct{})
	go d.Write(context.Background(), func(context.Context, Tx) error { close(busy); <-block; return nil })
	<-busy
	return func() { close(block) }
}

func stored(t *testing.T, d *DB) (n int) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM cursors WHERE value = '' AND updated_at = 1`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFailedWriteDoesNotAffectTheOthersOfItsGroup(t *testing.T) {
	t.Parallel()
	d := mustOpen(t)
	release := hold(d)
	results := make(chan error, 3)
	for i := range 3 {
		go func() {
			results <- d.Write(context.Background(), func(ctx context.Context, tx Tx) error {
				if i == 1 {
					return errors.New("bad")
				}
				return insert(fmt.Sprint("good ", i))(ctx, tx)
			})
		}()
	}
	for len(d.chores.group.queue) < 3 {
		time.Sleep(time.Millisecond)
	}
	release()
	failures := 0
	for range 3 {
		if err := <-results; err != nil {
			failures++
		}
	}
	if n := stored(t, d); failures != 1 || n != 2 {
		t.Fatalf("%d failures, %d stored", failures, n)
	}
}

// A panic in a write comes to the goroutine that asked for it, whichever commits the group. Nothing of that write is stored, and
// the others go on.
func TestPanicInAWriteLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	testPanic(t, mustOpen(t))
}

func testPanic(t *testing.T, d *DB) {
	t.Helper()
	panicking := func(ctx context.Context, tx Tx) error {
		if err := insert("bad")(ctx, tx); err != nil {
			return err
		}
		panic("broken")
	}
	write := func(do func(context.Context, Tx) error) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v", cause)
			}
		}()
		return d.WriteSession(context.Background(), "cli:1", do)
	}
	if err := write(panicking); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Fatalf("a write that panics: %v", err)
	}
	var writing sync.WaitGroup
	for i := range 40 {
		writing.Go(func() {
			do := insert(fmt.Sprint("good ", i))
			if i%4 == 0 {
				do = panicking
			}
			if err := write(do); (err != nil) != (i%4 == 0) {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	writing.Wait()
	if n := stored(t, d); n != 30 {
		t.Errorf("%d of 30 are stored", n)
	}
}

// More writes may wait than fit into one transaction.
func TestMoreWritesThanAGroupAreAllMade(t *testing.T) {
	t.Parallel()
	d := mustOpen(t)
	release := hold(d)
	var writing sync.WaitGroup
	for i := range 3 * maxGroup {
		writing.Go(func() {
			if err := d.Write(context.Background(), insert(fmt.Sprint("one of many ", i))); err != nil {
				t.Error(err)
			}
		})
	}
	release()
	writing.Wait()
	if n := stored(t, d); n != 3*maxGroup {
		t.Fatalf("%d of %d are stored", n, 3*maxGroup)
	}
}

// A chore runs after the one that it needs, in whatever order they are registered, and does not run
// without it.
func TestChoreRunsAfterTheOneThatItNeeds(t *testing.T) {
	t.Parallel()
	var order []string
	chore := func(name, needs string) Chore {
		done := false
		return Chore{Name: name, Needs: needs, Step: func(context.Context, Tx) (bool, error) {
			if !done {
				order = append(order, name)
			}
			was := done
			done = true
			return was, nil
		}}
	}
	d := mustOpen(t, chore("third", "second"), chore("lonely", "missing"), chore("second", "first"), chore("first", ""))
	d.StopChores()
	if stuck, err := d.FinishChores(t.Context()); err != nil || len(stuck) != 0 {
		t.Fatal(stuck, err)
	}
	if got := fmt.Sprint(order); got != "[first second third]" {
		t.Error(got)
	}
}

func BenchmarkLookAtOpenFiles(b *testing.B) {
	d := mustOpen(b)
	for b.Loop() {
		if m := d.engine.(*sqliteFile).files.look(); m != nil {
			b.Fatal(m)
		}
	}
}

// A quick write is committed without a sync, unless it shares its transaction with another write.
func TestOnlyQuickWritesAreCommittedWithoutASync(t *testing.T) {
	t.Parallel()
	const normal, full = 1, 2
	d := mustOpen(t)
	level := func(at *int) func(ctx context.Context, tx Tx) error {
		return func(ctx context.Context, tx Tx) error {
			return tx.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(at)
		}
	}
	var quick, after, joined int
	if err := errors.Join(d.WriteQuickly(t.Context(), "", level(&quick)), d.Write(t.Context(), level(&after))); err != nil {
		t.Fatal(err)
	}
	release := hold(d)
	results := make(chan error, 2)
	go func() { results <- d.WriteQuickly(context.Background(), "", level(&joined)) }()
	go func() { results <- d.Write(context.Background(), insert("other")) }()
	for len(d.chores.group.queue) < cap(results) {
		time.Sleep(time.Millisecond)
	}
	release()
	if err := errors.Join(<-results, <-results); err != nil {
		t.Fatal(err)
	}
	if quick != normal || after != full || joined != full {
		t.Errorf("a quick write has the level %d, the next one %d, and one that joins another %d", quick, after, joined)
	}
	if err := d.WriteQuickly(t.Context(), "", func(context.Context, Tx) error { return errors.New("bad") }); err == nil {
		t.Error("a failed write reports no error")
	}
	if err := d.Write(t.Context(), level(&after)); err != nil || after != full {
		t.Errorf("after a failed quick write the level is %d, %v", after, err)
	}
}
