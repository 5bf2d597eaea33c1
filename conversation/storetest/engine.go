package storetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"

	"parley/conversation"
	"parley/conversation/internal/postgres"
	"parley/internal/postgrestest"
)

// OnPostgres reports whether the tests of this process open their stores on PostgreSQL.
func OnPostgres() bool { return postgrestest.IsSelected() }

// NeedsSQLite skips a test on PostgreSQL, because it is about SQLite alone: its file, its statements, its index of words
// or the schemas of earlier versions, none of which ran on PostgreSQL.
func NeedsSQLite(t testing.TB) {
	t.Helper()
	if OnPostgres() {
		t.Skip("this is about SQLite alone")
	}
}

// NeedsVirtualTime skips a test on PostgreSQL, because its time is that of testing/synctest, which stands still while a
// server is waited for.
func NeedsVirtualTime(t testing.TB) {
	t.Helper()
	if OnPostgres() {
		t.Skip("virtual time does not pass while a server is waited for")
	}
}

// FailInserts makes a table refuse rows, until the returned function is called. when is a condition on the row NEW,
// "true" for all rows.
func FailInserts(t testing.TB, s *conversation.Store, table, when string) (repair func()) {
	t.Helper()
	if OnPostgres() {
		Exec(t, s, `CREATE OR REPLACE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''disk full''; END'`)
		Exec(t, s, `CREATE TRIGGER disk_full BEFORE INSERT ON `+table+` FOR EACH ROW WHEN (`+when+`) EXECUTE FUNCTION refuse_row()`)
		return func() { Exec(t, s, `DROP TRIGGER disk_full ON `+table) }
	}
	Exec(t, s, `CREATE TRIGGER disk_full BEFORE INSERT ON `+table+` WHEN `+when+` BEGIN SELECT RAISE(ABORT, 'disk full'); END`)
	return func() { Exec(t, s, `DROP TRIGGER disk_full`) }
}

// Database returns what to open for the database at path, which it makes when there is none. On PostgreSQL, the path
// stands for the URL of a database of the test's own.
func Database(t testing.TB, path string) string {
	t.Helper()
	if OnPostgres() {
		return urlOf(t, path)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		Make(t, path)
	}
	return path
}

var urls sync.Map // by path

func urlOf(t testing.TB, path string) string {
	t.Helper()
	if postgres.IsURL(path) { // of a store that is opened again
		return path
	}
	if url, known := urls.Load(path); known {
		return url.(string)
	}
	url := emptyPostgres.Database(t)
	urls.Store(path, url)
	t.Cleanup(func() { urls.Delete(path) })
	return url
}

var emptyPostgres = postgrestest.Template{Make: func(url string) error {
	store, err := conversation.Open(context.Background(), conversation.Config{Path: url})
	if err != nil {
		return err
	}
	return store.Close()
}}
