// Package db is the database under package conversation: one SQLite file, with
// the connections to it, transactions, locks between processes, migrations, and
// what the store does when the file is damaged or taken away.
//
// What is particular to the engine stays behind [DB]: callers write SQL, and ask for the
// kind of an error with functions such as [IsDamaged] and [FaultOf]. A second engine has to
// offer the same: [Open] with its migrations, [DB.Write] and [DB.WriteLazily], the reads,
// [DB.Lock], the chores, and errors sorted into faults.
package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Config says how Open opens a database.
type Config struct {
	Path   string
	Log    *slog.Logger // for what goes wrong where no caller could be told
	Chores []Chore      // in any order: each is done behind the one that it needs
}

// DB is an open database. It is safe for concurrent use. Several processes may
// open the same file.
//
// Its methods QueryContext, QueryRowContext and Conn read on a small pool of
// connections, beside the one that writes.
type DB struct {
	path    string
	given   string // the path as it was given to Open
	log     *slog.Logger
	readers *sql.DB
	writer  *writer
	files   *openFiles
	damages *damages
	locks   *locks
	unclean bool
}

// Querier is a connection, a transaction, or a DB.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Open opens the database at a path, creates it if there is none, and brings
// its schema up to date. The folder must exist.
func Open(ctx context.Context, config Config) (*DB, error) {
	if err := requireFTS5(); err != nil {
		return nil, err
	}
	given, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, err
	}
	path, err := RealPath(config.Path)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	locks, err := openLocks(path+lockSuffix, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, explainFile(path, err))
	}
	d := &DB{path: path, given: given, log: config.Log, locks: locks, damages: newDamages(config.Log)}
	d.tightenFiles()
	if err := d.open(ctx, config.Chores); err != nil {
		d.Close()
		return nil, fmt.Errorf("open %s: %w", path, explainFile(path, Explain(err)))
	}
	return d, nil
}

func requireFTS5() error {
	if !fts5 {
		return errors.New("this gateway was built without SQLite's full-text search: build it with `make build`, or `go build -tags sqlite_fts5`")
	}
	return nil
}

const (
	readerIdle  = 5 * time.Second // how long an unused connection for reading keeps its cache
	readerCache = "-500"          // KiB
)

func (d *DB) open(ctx context.Context, chores []Chore) error {
	migrated, err := d.prepare(ctx)
	if err != nil {
		return err
	}
	defer migrated.Close() // after the writer was opened: closing the last connection to a file syncs it twice
	if d.writer, err = openWriter(ctx, d.log, d.damages, d.path, chores); err != nil {
		return err
	}
	if d.files, err = newOpenFiles(d.given, d.path); err != nil {
		return err
	}
	readers := max(2, runtime.GOMAXPROCS(0))
	d.readers = sql.OpenDB(connector{d.files, d.damages, dsn(d.path, "_query_only", "1", "_cache_size", readerCache)})
	d.readers.SetMaxOpenConns(readers)
	d.readers.SetMaxIdleConns(readers)
	d.readers.SetConnMaxIdleTime(readerIdle)
	d.writer.place(d.files, d.locks, d.readers, readers)
	return nil
}

// prepare makes the file ready for use, one process at a time. The caller closes
// the connection that prepare used and returns.
func (d *DB) prepare(ctx context.Context) (db *sql.DB, err error) {
	const wait, tries = 50 * time.Millisecond, 40 // another process may just be closing the database, or renewing its log
	for range tries {
		if db, err = d.tryPrepare(ctx); !errors.Is(err, errNoLog) {
			return db, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, err
}

func (d *DB) tryPrepare(ctx context.Context) (*sql.DB, error) {
	pid, unlock, err := d.locks.try(migrationLock, syscall.F_WRLCK)
	if errors.Is(err, errHeld) {
		d.log.Info("waiting for another process that prepares the database", "pid", pid)
		unlock, err = d.locks.wait(migrationLock)
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	alone, sameBoot, err := d.locks.join()
	if err != nil {
		return nil, err
	}
	if !alone {
		if err := d.locks.checkShared(); err != nil {
			return nil, errors.Join(err, d.locks.leave())
		}
		return migrate(ctx, d.path)
	}
	if err := d.takeOver(ctx, sameBoot); err != nil {
		return nil, err
	}
	if err := makePrivate(d.path); err != nil {
		return nil, err
	}
	d.locks.noteFile()
	return migrate(ctx, d.path)
}

// takeOver examines what earlier processes have left behind.
func (d *DB) takeOver(ctx context.Context, sameBoot bool) error {
	done, err := finishReplace(d.path)
	if err != nil {
		return err
	}
	if done != nil {
		d.log.Warn("interrupted restore finished", "database", d.path, "restored", done.Origin, "set_aside", done.Kept)
	}
	d.unclean, err = checkLog(ctx, d.log, d.path, sameBoot)
	return err
}

// Close waits for the writes under way and closes the file. It releases every
// lock that this process holds.
func (d *DB) Close() error {
	var errs []error
	if d.readers != nil {
		errs = append(errs, d.readers.Close())
	}
	if d.writer != nil {
		errs = append(errs, d.writer.close())
	}
	if d.files != nil {
		errs = append(errs, d.files.close())
	}
	errs = append(errs, d.locks.close())
	return errors.Join(errs...)
}

// Path returns the absolute path of the database file, links followed.
func (d *DB) Path() string { return d.path }

// QueryContext reads on a connection of the pool. The end of ctx interrupts it.
func (d *DB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return d.readers.QueryContext(ctx, query, args...)
}

// QueryRowContext reads one row on a connection of the pool.
func (d *DB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return d.readers.QueryRowContext(ctx, query, args...)
}

// Query reads on a connection or in a transaction. The end of ctx interrupts it.
func Query(ctx context.Context, q Querier, query string, args ...any) (*sql.Rows, error) {
	return q.QueryContext(ctx, query, args...)
}

// Short is Query for what takes little time: ctx only counts before the query. Where a
// context can end, the driver starts a goroutine for each row.
func Short(ctx context.Context, q Querier, query string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return q.QueryContext(context.WithoutCancel(ctx), query, args...)
}

// Column reads all rows of a query that gives one column: it takes what QueryContext,
// Query or Short has returned. What was read before an error is returned with it.
func Column[T any](rows *sql.Rows, err error) (list []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			return list, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
}

// Conn takes a connection out of the pool, for several reads. The caller closes
// it.
func (d *DB) Conn(ctx context.Context) (*sql.Conn, error) { return d.readers.Conn(ctx) }

// Write runs do in a transaction and returns when that is on disk. Writes that
// wait at the same time share a transaction and its sync. do may run twice: when
// another write of the same transaction fails, each is repeated in one of its own.
// ctx counts until the write is queued; after that, Write waits for the outcome, so
// that the caller always knows whether it was stored.
func (d *DB) Write(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	return d.writer.write(ctx, do)
}

// WriteLazily is Write for what may wait up to 5 ms for the transaction of
// another write, and so costs nearly nothing while much is written.
func (d *DB) WriteLazily(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	return d.writer.writeLazily(ctx, do)
}

// Read runs a short read on the connection that writes: its page cache stays
// valid, while every other connection loses its cache with each write. No write
// goes on meanwhile. It fails where Write would, because the database was taken away.
func (d *DB) Read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	return d.writer.read(ctx, do)
}
