package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"parley/conversation/internal/sqlitefile"
)

// SQLite replays a write-ahead log into the database file beside it, even if that file was
// replaced by another one. The store detects this by epochs: random names in the
// table wal_epoch. The first transaction of each generation of the log gives the database a
// new epoch and stores the previous one. A log belongs to a file that has one of the two.

// epochs decides when a transaction stores a new epoch. Only the goroutine that has the
// writer's turn uses it.
type epochs struct {
	path    string
	renewed fileVersion // the version of the database file before the latest epoch was stored
}

// fileVersion changes whenever a checkpoint writes the file.
type fileVersion struct {
	modified time.Time
	size     int64
}

func (e *epochs) version() (fileVersion, error) {
	info, err := os.Stat(e.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fileVersion{}, nil
	}
	if err != nil {
		return fileVersion{}, err
	}
	return versionOf(info), nil
}

const (
	renewEpoch     = `UPDATE wal_epoch SET previous = epoch, epoch = lower(hex(randomblob(16)))`
	epochMigration = 13 // makes the table
)

// during calls do in a transaction. If a checkpoint has written the file since the latest
// epoch was stored, the log may begin a new generation, so during also stores a new epoch.
// The caller must set e.renewed to the result when the transaction is committed.
func (e *epochs) during(ctx context.Context, tx Tx, do func() error) (renewed fileVersion, err error) {
	version, err := e.version()
	if err != nil {
		return e.renewed, err
	}
	if version == e.renewed {
		return e.renewed, do()
	}
	before, err := Changes(ctx, tx)
	if err != nil {
		return e.renewed, err
	}
	if err := do(); err != nil {
		return e.renewed, err
	}
	after, err := Changes(ctx, tx)
	if err != nil || after == before { // nothing is written to the log
		return e.renewed, err
	}
	_, err = tx.ExecContext(ctx, renewEpoch)
	return version, err
}

// checkLog returns a *ForeignLogError for a log that was written for another file. It must be
// called before SQLite replays the log, while no process has the database open. unclean reports
// that the last process did not close the database.
func checkLog(ctx context.Context, log *slog.Logger, path string, sameBoot bool) (unclean bool, err error) {
	verdict, err := sqlitefile.CheckWAL(path, sameBoot, func() sqlitefile.FileEpoch { return fileEpoch(ctx, path) })
	switch {
	case err != nil || verdict == sqlitefile.NoLog:
		return false, err
	case verdict == sqlitefile.Foreign:
		return true, &ForeignLogError{Path: path}
	case verdict == sqlitefile.Belongs:
		return true, nil
	}
	log.Info("database was not closed in order, checking it", "database", path)
	problem, err := firstProblem(ctx, path)
	if err == nil && problem != "" {
		err = &ForeignLogError{Path: path, Problem: problem}
	}
	return true, err
}

// fileEpoch reads the epoch of the database file, without its log.
func fileEpoch(ctx context.Context, path string) (e sqlitefile.FileEpoch) {
	db, err := openReadOnly(path, "immutable", "1")
	if err != nil {
		return e
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = 'wal_epoch'`).Scan(&e.Page)
	if errors.Is(err, sql.ErrNoRows) {
		e.Readable = true
		return e
	}
	if err == nil {
		err = db.QueryRowContext(ctx, `SELECT epoch FROM wal_epoch`).Scan(&e.Name)
	}
	e.Readable = err == nil
	return e
}

// firstProblem returns the first damage that SQLite finds in the database with its log, or
// "". It writes only the index of the log.
func firstProblem(ctx context.Context, path string) (problem string, err error) {
	db, err := openReadOnly(path)
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&problem)
	if err == nil && problem == "ok" {
		problem = ""
		var table string
		err = db.QueryRowContext(ctx, `SELECT "table" FROM pragma_foreign_key_check LIMIT 1`).Scan(&table)
		if err == nil {
			problem = "rows of the table " + table + " refer to others that do not exist"
		}
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = nil
	case isCorrupt(err):
		problem, err = err.Error(), nil
	}
	return problem, err
}

// openReadOnly opens a database for reading only. extra are further names and values for dsn.
func openReadOnly(path string, extra ...string) (*sql.DB, error) {
	return sql.Open("sqlite3", dsn(path, append(extra, "mode", "ro", "_journal_mode", "", "_query_only", "1")...))
}

// ForeignLogError says that the write-ahead log beside the database belongs to another file.
// Usually somebody copied a backup over the database after a crash and left the old log
// there. Nothing was changed.
type ForeignLogError struct {
	Path    string
	Problem string // the damage that SQLite found; "" if the epochs differ
}

func (e *ForeignLogError) Error() string {
	wal := e.Path + "-wal"
	what := fmt.Sprintf("%s was written for another file than the one that is there now; SQLite would replay it into this one and damage it", wal)
	if e.Problem != "" {
		what = fmt.Sprintf("the file and its write-ahead log %s do not fit together, or are damaged (%s)", wal, e.Problem)
	}
	return what + ". Nothing was changed. If a copy was put in its place, `gateway restore COPY` does that in order, and sets aside what is here; " +
		"`gateway verify` says what is damaged"
}
