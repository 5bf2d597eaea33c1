package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/conversation/internal/postgres"
	"parley/internal/clock"
	"parley/internal/postgrestest"
)

const divisionByZero = "22012"

// divide returns 100 divided by a number on the server: the result shows whose answer it is, and 0 makes the statement fail.
func divide(ctx context.Context, d *DB, by int) (n int, err error) {
	err = ShortRow(ctx, d, `SELECT 100 / CAST(? AS bigint) + ?`, by, by).Scan(&n)
	return n, err
}

// sharedPID waits until short reads share a connection, and returns the id of its process on the server.
func sharedPID(t *testing.T, d *DB) (pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for {
		var timeout string
		if err := ShortRow(ctx, d, `SELECT pg_backend_pid(), current_setting('statement_timeout')`).Scan(&pid, &timeout); err != nil {
			t.Fatal(err)
		}
		if timeout == "1s" {
			return pid
		}
		if clock.Sleep(ctx, 10*time.Millisecond) != nil {
			t.Fatal("waited in vain until short reads share a connection")
		}
	}
}

// Concurrent short reads get their own answers, also when another one fails, with and without a pooler that does not allow prepared
// statements.
func TestShortReadsGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"", "&default_query_exec_mode=cache_describe"} {
		d := openServer(t, postgrestest.Database(t)+settings, patience{})
		if settings == "" {
			sharedPID(t, d)
		}
		var chats errgroup.Group
		for chat := range 100 {
			chats.Go(func() error {
				for i := range 20 {
					by := (chat + i) % 50
					n, err := divide(t.Context(), d, by)
					if by == 0 && postgres.Code(err) != divisionByZero {
						return fmt.Errorf("100 / 0 is %d, %w", n, err)
					}
					if by != 0 && (err != nil || n != 100/by+by) {
						return fmt.Errorf("100 / %d + %d is %d, %w", by, by, n, err)
					}
				}
				return nil
			})
		}
		if err := chats.Wait(); err != nil {
			t.Error(err)
		}
		err := ShortRow(t.Context(), d, `SELECT 1 WHERE ? = 2`, 1).Scan(new(int))
		if !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
	}
}

// A read that is cancelled returns without its answer, and the next read gets its own answer.
func TestShortReadIsCancelledAlone(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	d := openServer(t, url, patience{})
	sharedPID(t, d)
	other := postgrestest.Connect(t, url)
	if _, err := other.Exec(t.Context(), `SELECT pg_advisory_lock(7)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error)
	go func() {
		cancelled <- ShortRow(ctx, d, `SELECT 1 FROM (SELECT pg_advisory_xact_lock(7)) AS waits`).Scan(new(int))
	}()
	for waits := false; !waits; {
		if err := other.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	answered := make(chan error)
	go func() {
		n, err := divide(t.Context(), d, 2)
		if err == nil && n != 52 {
			err = fmt.Errorf("100 / 2 + 2 is %d", n)
		}
		answered <- err
	}()
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled read: %v", err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// The server ends the connection that short reads share, under load. No read fails, and soon they share another one.
func TestShortReadsSurviveALostConnection(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	d := openServer(t, url, patience{})
	first := sharedPID(t, d)
	var chats errgroup.Group
	ended := make(chan struct{})
	for chat := range 20 {
		chats.Go(func() error {
			for {
				if n, err := divide(t.Context(), d, chat+1); err != nil || n != 100/(chat+1)+chat+1 {
					return fmt.Errorf("100 / %d is %d, %w", chat+1, n, err)
				}
				select {
				case <-ended:
					return nil
				default:
				}
			}
		})
	}
	postgrestest.Exec(t, url, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, first))
	second := first
	for second == first {
		second = sharedPID(t, d)
	}
	close(ended)
	if err := chats.Wait(); err != nil {
		t.Error(err)
	}
}
