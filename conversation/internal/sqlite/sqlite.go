// Package sqlite opens and copies database files without the store: files that no store has
// open, or a file that a store has open, at the same time. Only this package and db import the driver.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/mattn/go-sqlite3"
)

// Options says how Open opens a file. With the zero value, the file can be read and written, and
// is created if there is none.
type Options struct {
	ReadOnly    bool    // write nothing, neither to the file nor to its log
	Immutable   bool    // with ReadOnly: ignore the log, and assume that no process writes to the file
	QueryOnly   bool    // refuse statements that write; SQLite may still write a log that a crash has left into the file
	Journal     Journal // "" = the journal mode of the file
	NoSync      bool    // do not sync, so that a crash of the machine may damage the file
	ForeignKeys bool    // enforce foreign keys
	CacheKiB    int     // the size of each connection's page cache; 0 = SQLite's default
}

// Journal is the journal mode of a database: https://www.sqlite.org/pragma.html#pragma_journal_mode
type Journal string

const (
	WAL        Journal = "WAL"    // a write-ahead log beside the file
	Rollback   Journal = "DELETE" // a rollback journal, which each commit deletes
	NoRollback Journal = "OFF"    // no journal, so that a crash damages the file: for files that are being created
)

// busyTimeout is how long a connection waits for a lock of another one.
const busyTimeout = 10 * time.Second

// Open opens a database file. With ReadOnly, a file without a log can be opened in a folder that is
// not writable.
func Open(path string, o Options) (*sql.DB, error) {
	return sql.Open("sqlite3", o.dsn(path))
}

// OpenMemory opens an empty database in memory. It has one connection.
func OpenMemory() (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file::memory:")
	if err == nil {
		db.SetMaxOpenConns(1) // each connection would have a database of its own
	}
	return db, err
}

// dsn returns the data source name of a file with the options.
func (o Options) dsn(path string) string {
	q := url.Values{"_busy_timeout": {strconv.FormatInt(busyTimeout.Milliseconds(), 10)}}
	if o.ReadOnly {
		q.Set("mode", "ro")
		if o.Immutable || !hasLog(path) {
			q.Set("immutable", "1")
		}
	}
	if o.ReadOnly || o.QueryOnly {
		q.Set("_query_only", "1")
	}
	if o.Journal != "" {
		q.Set("_journal_mode", string(o.Journal))
	}
	if o.NoSync {
		q.Set("_synchronous", "OFF")
	}
	if o.ForeignKeys {
		q.Set("_foreign_keys", "on")
	}
	if o.CacheKiB > 0 {
		q.Set("_cache_size", strconv.Itoa(-o.CacheKiB))
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// hasLog reports whether a file may have a write-ahead log, or may be open in WAL mode.
func hasLog(path string) bool {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		return true
	}
	_, err := os.Stat(path + "-shm")
	return !errors.Is(err, os.ErrNotExist)
}

const (
	copyPages = 64               // how many pages are copied between two checks of the context
	copyWait  = 10 * time.Second // how long a copy waits for a lock of another program
)

// CopyPages copies the database of a connection, including its log, page by page into a file
// that is empty or missing. The copy has the state in which the connection's read transaction
// began. CopyPages calls report with the numbers of copied pages and of all pages. The error is that
// of SQLite for a busy database if no page can be copied for 10 seconds, or that of ctx.
func CopyPages(ctx context.Context, from *sql.Conn, target string, report func(done, total int)) error {
	return from.Raw(func(c any) error {
		raw, ok := c.(*sqlite3.SQLiteConn)
		if !ok {
			return fmt.Errorf("connection of an unknown driver: %T", c.(driver.Conn))
		}
		return copyPagesTo(ctx, raw, target, report)
	})
}

func copyPagesTo(ctx context.Context, from *sqlite3.SQLiteConn, target string, report func(done, total int)) (err error) {
	opened, err := (&sqlite3.SQLiteDriver{}).Open(Options{Journal: NoRollback, NoSync: true}.dsn(target))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	backup, err := opened.(*sqlite3.SQLiteConn).Backup("main", from, "main")
	if err != nil {
		return err
	}
	defer func() {
		if e := backup.Close(); err == nil {
			err = e
		}
	}()
	moved, remaining := time.Now(), -1
	for {
		done, err := backup.Step(copyPages)
		if err != nil {
			return err
		}
		report(backup.PageCount()-backup.Remaining(), backup.PageCount())
		if done {
			return nil
		}
		if left := backup.Remaining(); left != remaining {
			moved, remaining = time.Now(), left
		} else if time.Since(moved) > copyWait {
			return sqlite3.Error{Code: sqlite3.ErrBusy}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
