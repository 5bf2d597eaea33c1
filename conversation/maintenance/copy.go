package maintenance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"parley/conversation/internal/sqlite"
)

// copyDatabase copies a database, including its write-ahead log, into an empty
// file, as it is at one moment: the read transaction that it holds meanwhile keeps
// nobody from writing, and no write makes it start again. The copy needs no log,
// and no log belongs to it. It is made page by page, or row by row if more than an
// eighth of the pages are free, so that it has no free pages.
func copyDatabase(ctx context.Context, source *sql.Conn, target string, progress Progress) error {
	var pages, free int
	if err := source.QueryRowContext(ctx, "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&pages, &free); err != nil {
		return err
	}
	copyTo := copyPages
	if free > pages/8 {
		copyTo = copyRows
	}
	if err := copyTo(ctx, source, target, progress); err != nil {
		return err
	}
	return detach(ctx, target)
}

func copyPages(ctx context.Context, source *sql.Conn, target string, progress Progress) error {
	if _, err := source.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer source.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // ends what has read only
	var tables int
	if err := source.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil { // the moment
		return err
	}
	report := func(done, total int) { progress.Report(Copying, int64(done), int64(total)) }
	return sqlite.CopyPages(ctx, source, target, report)
}

// copyRows copies a database with VACUUM INTO, which writes to the target alone.
func copyRows(ctx context.Context, source *sql.Conn, target string, progress Progress) error {
	progress.Report(Copying, 0, 0)
	if err := os.Truncate(target, 0); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier try
		return err
	}
	if _, err := source.ExecContext(ctx, "PRAGMA query_only = off"); err != nil {
		return err
	}
	_, err := source.ExecContext(ctx, "VACUUM INTO ?", target)
	_, on := source.ExecContext(context.WithoutCancel(ctx), "PRAGMA query_only = on")
	return errors.Join(err, on)
}

// detach makes a copy one that needs no log, and that no log of the original is
// taken for. Nobody is signed in by a copy: who has signed out since must stay
// out when it is put back.
func detach(ctx context.Context, path string) (err error) {
	db, err := sqlite.Open(path, sqlite.Options{Journal: sqlite.Rollback, NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for table, change := range map[string]string{
		"wal_epoch":    `UPDATE wal_epoch SET epoch = lower(hex(randomblob(16)))`,
		"signins":      `DELETE FROM signins`,
		"signin_codes": `DELETE FROM signin_codes`,
		"http_server":  `DELETE FROM http_server`,
	} {
		var tables int
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = ?`, table).Scan(&tables); err != nil {
			return err
		}
		if tables == 0 {
			continue // of an earlier version
		}
		if _, err := db.ExecContext(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// checkCopy checks a copy as thoroughly as SQLite can, and counts what it holds.
func checkCopy(ctx context.Context, path string, progress Progress) (c Contents, err error) {
	progress.Report(Checking, 0, 0)
	db, err := openToRead(path)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if c, err = identify(ctx, db, path); err != nil {
		return c, err
	}
	found, err := problems(ctx, db, 1)
	if err != nil {
		return c, explain(path, err)
	}
	if len(found) > 0 {
		return c, &DamagedError{Path: path, Problem: found[0]}
	}
	return c, measure(ctx, db, path, &c)
}

// DamagedError says that a copy is not whole.
type DamagedError struct {
	Path    string
	Problem string // the first that SQLite found
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged (%s); `gateway verify` says what is hit, `gateway repair` saves what can be read", e.Path, e.Problem)
}
