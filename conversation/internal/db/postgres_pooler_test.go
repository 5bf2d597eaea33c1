package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"parley/internal/postgrestest"
)

// Whatever the pooler does with server connections, reads and writes of many sessions succeed, although the URL says
// nothing of the pooler. A second process finds what the first one has left on the server connections.
func TestDatabaseBehindAPoolerWorks(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	postgrestest.Exec(t, url, `CREATE TABLE kept (session TEXT, n BIGINT)`)
	for mode, without := range map[string]bool{
		"pool_mode = transaction":                         true,
		"pool_mode = transaction\nserver_round_robin = 1": true,
		"pool_mode = session":                             false,
	} {
		t.Run(mode, func(t *testing.T) {
			pooled := postgrestest.NewPooler(t, url, postgrestest.PoolerSettings, mode)
			for range 2 {
				var log bytes.Buffer
				d, err := Open(t.Context(), Config{Path: pooled, Log: slog.New(slog.NewTextHandler(&log, nil))})
				if err != nil {
					t.Fatal(err)
				}
				workAtOnce(t, d)
				if err := d.Close(); err != nil {
					t.Error(err)
				}
				if got := strings.Contains(log.String(), "keeps no prepared statements"); got != without {
					t.Errorf("the log says that the pooler keeps no statements: %t\n%s", got, &log)
				}
			}
		})
	}
}

// workAtOnce reads and writes in twenty sessions at the same time.
func workAtOnce(t *testing.T, d *DB) {
	t.Helper()
	var sessions errgroup.Group
	for i := range 20 {
		session := fmt.Sprint("api:", i)
		sessions.Go(func() error {
			for n := range 20 {
				err := d.WriteSession(t.Context(), session, func(ctx context.Context, tx Tx) error {
					_, err := tx.ExecContext(ctx, `INSERT INTO kept (session, n) VALUES (?, ?)`, session, n)
					return err
				})
				if err != nil {
					return fmt.Errorf("write %d of %s: %w", n, session, err)
				}
				var newest int
				if err := ShortRow(t.Context(), d, `SELECT max(n) FROM kept WHERE session = ? AND n <= ?`, session, n).Scan(&newest); err != nil || newest != n {
					return fmt.Errorf("short read %d of %s: %d, %w", n, session, newest, err)
				}
				if err := d.QueryRowContext(t.Context(), `SELECT max(n) FROM kept WHERE session = ? AND n < ?`, session, n+1).Scan(&newest); err != nil || newest != n {
					return fmt.Errorf("read %d of %s: %d, %w", n, session, newest, err)
				}
			}
			return nil
		})
	}
	if err := sessions.Wait(); err != nil {
		t.Error(err)
	}
}

// A pooler that can't be adapted to is refused, with the line to change. Waiting for it would not help.
func TestPoolerThatBreaksStatementsIsRefused(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	missing := func(url string) string { return strings.Replace(url, "/test_", "/missing_", 1) }
	for name, c := range map[string]struct {
		settings []string
		url      func(string) string
		want     string
	}{
		"settings are not ignored": {[]string{"pool_mode = transaction"}, nil, "write `" + postgrestest.PoolerSettings + "` into pgbouncer.ini"},
		"no transactions":          {[]string{postgrestest.PoolerSettings, "pool_mode = statement"}, nil, "write `pool_mode = transaction` or `pool_mode = session` into pgbouncer.ini"},
		"no such database":         {[]string{postgrestest.PoolerSettings, "pool_mode = transaction"}, missing, "the server has no such database: create it with `createdb`"},
	} {
		pooled := postgrestest.NewPooler(t, url, c.settings...)
		if c.url != nil {
			pooled = c.url(pooled)
		}
		d, err := Open(t.Context(), Config{Path: pooled, Log: slog.New(slog.DiscardHandler)})
		switch {
		case err == nil:
			d.Close()
			t.Errorf("%s: the database is open", name)
		case !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnreachable):
			t.Errorf("%s: %v (can't be reached: %t)", name, err, errors.Is(err, ErrUnreachable))
		}
	}
}
