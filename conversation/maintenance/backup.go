package maintenance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
)

// BackupOptions change how Backup works. The zero value is ready to use.
type BackupOptions struct {
	Force    bool // replace the target if it exists
	Progress Progress
}

// Backup copies the database to the file target, which is complete and checked
// when it appears there, readable by its owner alone, and needs no other file.
// Processes that use the database go on reading and writing. Whatever goes wrong
// and whenever ctx ends, there is no target, or the one from before.
func Backup(ctx context.Context, database, target string, o BackupOptions) (c Contents, err error) {
	held, err := shareChecked(ctx, database)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if target, err = checkTarget(held.Path, target, o.Force); err != nil {
		return c, err
	}
	d, err := newDraft(target)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, d.discard()) }()
	db, err := sqlite.Open(held.Path, sqlite.Options{QueryOnly: true})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if c, err = fill(ctx, db, held.Path, d, o.Progress); err != nil {
		return c, err
	}
	return c, d.publish(target, o.Force)
}

// shareChecked returns shared access to a database, whose write-ahead log is checked unless another
// process has the database open.
func shareChecked(ctx context.Context, path string) (*db.Access, error) {
	held, err := db.Share(path)
	if err != nil || !held.Alone {
		return held, err
	}
	if err := held.CheckLog(ctx); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// fill makes a draft a checked copy of a database.
func fill(ctx context.Context, db *sql.DB, source string, d *draft, progress Progress) (c Contents, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return c, explain(source, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := identify(ctx, conn, source); err != nil {
		return c, err
	}
	lost, err := copyWhole(ctx, conn, source, d.path, progress)
	if err != nil {
		return c, explain(d.path, err)
	}
	if c, err = checkCopy(ctx, d.path, progress); err != nil {
		var damaged *DamagedError
		if errors.As(err, &damaged) {
			damaged.Path = source
		}
		return c, err
	}
	c.LostFiles = lost
	return c, nil
}

// copyWhole copies a database with its large files. When some of these are deleted
// meanwhile, it starts again.
func copyWhole(ctx context.Context, conn *sql.Conn, source, target string, progress Progress) (lost int64, err error) {
	for try := 0; ; try++ {
		if err := copyDatabase(ctx, conn, target, progress); err != nil {
			return 0, err
		}
		lost, err := embed(ctx, target, source, conn, progress)
		if try < 5 && errors.Is(err, errChanged) {
			continue
		}
		return lost, err
	}
}

// checkTarget returns the target's full name. It refuses a file that exists, and
// one that a database is made of.
func checkTarget(database, target string, force bool) (string, error) {
	target, err := filepath.Abs(target)
	if err != nil {
		return "", err
	}
	switch info, err := os.Stat(target); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", explainDraft(target, err)
	case info.IsDir():
		return "", fmt.Errorf("%s is a folder: name a file in it", target)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file: name one", target)
	case sameFile(target, database):
		return "", fmt.Errorf("%s is the database itself: name another file", target)
	case !force:
		return "", existsError(target)
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal", ".lock"} {
		if sameFile(target, database+suffix) || strings.HasSuffix(target, suffix) {
			return "", fmt.Errorf("%s: files whose names end with %q belong to a database: take another name", target, suffix)
		}
		if _, err := os.Lstat(target + suffix); err == nil {
			return "", fmt.Errorf("%s lies there, so %s is or was a database in use: take another name", target+suffix, target)
		}
	}
	return target, nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
