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

// sqliteFile is the engine of a database in a SQLite file.
type sqliteFile struct {
	path    string
	given   string // the path as it was given to Open
	log     *slog.Logger
	readers *sql.DB
	writer  *writer
	files   *openFiles
	damages *damages
	locks   *locks
	unclean bool
	other   int // PID of another daemon that had the database open when this one was marked; 0: there was none
}

func openSQLite(ctx context.Context, config Config) (*DB, error) {
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
	if err := checkPlace(path); err != nil {
		return nil, err
	}
	locks, err := openLocks(path+lockSuffix, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, explainFile(path, err))
	}
	f := &sqliteFile{path: path, given: given, log: config.Log, locks: locks, damages: newDamages(config.Log)}
	f.tightenFiles()
	if err := f.open(ctx, config.Chores); err != nil {
		f.close()
		return nil, fmt.Errorf("open %s: %w", path, explainFile(path, Explain(err)))
	}
	return &DB{engine: f, readers: f.readers, chores: f.writer.chores}, nil
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

func (f *sqliteFile) open(ctx context.Context, chores []Chore) error {
	migrated, err := f.prepare(ctx)
	if err != nil {
		return err
	}
	defer migrated.Close() // after the writer was opened: closing the last connection to a file syncs it twice
	if f.writer, err = openWriter(ctx, f.log, f.damages, f.path, chores); err != nil {
		return err
	}
	if f.files, err = newOpenFiles(f.given, f.path); err != nil {
		return err
	}
	readers := max(2, runtime.GOMAXPROCS(0)) + 1 // a search uses two, and others need not wait for it
	f.readers = sql.OpenDB(connector{f.files, f.damages, dsn(f.path, "_query_only", "1", "_cache_size", readerCache)})
	f.readers.SetMaxOpenConns(readers)
	f.readers.SetMaxIdleConns(readers)
	f.readers.SetConnMaxIdleTime(readerIdle)
	f.writer.place(f.files, f.locks, f.readers, readers)
	return nil
}

// prepare makes the file ready for use, one process at a time. It returns the connection
// that it has used, which the caller must close.
func (f *sqliteFile) prepare(ctx context.Context) (db *sql.DB, err error) {
	const wait, tries = 50 * time.Millisecond, 40 // another process may be closing the database, or making its log anew
	for range tries {
		if db, err = f.tryPrepare(ctx); !errors.Is(err, errNoLog) {
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

func (f *sqliteFile) tryPrepare(ctx context.Context) (*sql.DB, error) {
	pid, unlock, err := f.locks.try(migrationLock, syscall.F_WRLCK)
	if errors.Is(err, errHeld) {
		f.log.Info("waiting for another process that opens the database", "pid", pid)
		unlock, err = f.locks.wait(migrationLock)
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	alone, sameBoot, err := f.locks.join()
	if err != nil {
		return nil, err
	}
	if !alone {
		if err := f.locks.checkShared(); err != nil {
			return nil, errors.Join(err, f.locks.leave())
		}
		return migrate(ctx, f.log, f.path)
	}
	if err := f.takeOver(ctx, sameBoot); err != nil {
		return nil, err
	}
	if err := makePrivate(f.path); err != nil {
		return nil, err
	}
	f.locks.noteFile()
	return migrate(ctx, f.log, f.path)
}

// takeOver finishes an interrupted restore and checks the log, for a process that is alone with the file.
func (f *sqliteFile) takeOver(ctx context.Context, sameBoot bool) error {
	done, err := finishReplace(f.path)
	if err != nil {
		return err
	}
	if done != nil {
		f.log.Warn("interrupted restore finished", "database", f.path, "restored", done.Origin, "set_aside", done.Kept)
	}
	f.unclean, err = checkLog(ctx, f.log, f.path, sameBoot)
	return err
}

func (f *sqliteFile) close() error {
	var errs []error
	if f.readers != nil {
		errs = append(errs, f.readers.Close())
	}
	if f.writer != nil {
		errs = append(errs, f.writer.close())
	}
	if f.files != nil {
		errs = append(errs, f.files.close())
	}
	errs = append(errs, f.locks.close())
	return errors.Join(errs...)
}

func (f *sqliteFile) name() string { return f.path }

func (f *sqliteFile) write(ctx context.Context, _ string, what work) error {
	return f.writer.group.write(ctx, what)
}

func (f *sqliteFile) writeLazily(ctx context.Context, _ string, what work) error {
	return f.writer.group.writeLazily(ctx, what)
}

// held returns nil: without a cluster there are no roles.
func (f *sqliteFile) held(context.Context) task { return nil }

// owned returns nil: this process keeps the lock of a session until it releases it or dies.
func (f *sqliteFile) owned(context.Context, string) task { return nil }

func (f *sqliteFile) read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	return f.writer.read(ctx, do)
}

func (f *sqliteFile) short(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return f.readers.QueryContext(context.WithoutCancel(ctx), query, args...)
}

func (f *sqliteFile) lock(_ context.Context, name string) (release func(), err error) {
	pid, release, err := f.locks.try(name, syscall.F_WRLCK)
	if errors.Is(err, errHeld) {
		return nil, &HeldError{PID: pid}
	}
	return release, err
}

func (f *sqliteFile) markDaemon() error {
	_, _, err := f.locks.try(daemonLock, syscall.F_RDLCK)
	f.other = f.locks.otherDaemon()
	return err
}
