package blobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"parley/conversation/internal/db"
)

// Chore returns the chore that deletes blobs that no row of files names. It does not remove the
// files of large blobs: RemoveFiles does so when the deletion is on disk.
func Chore() db.Chore { return db.Chore{Name: "files that no message has", Step: drop, Patient: true} }

// drop deletes a part of an unused blob. done reports that there was none.
func drop(ctx context.Context, tx db.Tx) (done bool, err error) {
	var id int64
	var used bool
	err = tx.QueryRowContext(ctx, `SELECT blob_id FROM unused_blobs LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err == nil { // on PostgreSQL, this waits for a transaction that has found the blob and adds a file to it
		err = exec(ctx, tx, `SELECT 1 FROM blobs WHERE id = ?`+db.Either(``, ` FOR UPDATE`), id)
	}
	if err == nil {
		err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM files WHERE blob_id = ?)`, id).Scan(&used)
	}
	if err != nil || used {
		return false, firstError(err, exec(ctx, tx, `DELETE FROM unused_blobs WHERE blob_id = ?`, id))
	}
	// From here on, find does not return the blob, so no new file can name it.
	if err := exec(ctx, tx, `UPDATE blobs SET hash = 'deleted ' || CAST(id AS TEXT) WHERE id = ?`, id); err != nil {
		return false, err
	}
	const pieces = 4 // how many are deleted in one transaction, so that no write waits long
	result, err := tx.ExecContext(ctx, `
		DELETE FROM blob_pieces WHERE blob_id = ?1 AND n IN (SELECT n FROM blob_pieces WHERE blob_id = ?1 LIMIT ?2)`, id, pieces)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == pieces {
		return false, err
	}
	for _, statement := range []string{
		`INSERT INTO unused_paths (path) SELECT path FROM blobs WHERE id = ? AND path <> '' ON CONFLICT DO NOTHING`,
		`DELETE FROM blobs WHERE id = ?`,
		`DELETE FROM unused_blobs WHERE blob_id = ?`,
	} {
		if err := exec(ctx, tx, statement, id); err != nil {
			return false, err
		}
	}
	return false, nil
}

func exec(ctx context.Context, tx db.Tx, statement string, args ...any) error {
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// RemoveFiles removes the files of deleted large blobs. It reads their names after the commit of the
// deletion, so that the deletion is on disk.
func RemoveFiles(ctx context.Context, d *db.DB) error {
	for {
		names, err := db.Column[string](d.QueryContext(ctx, `SELECT path FROM unused_paths LIMIT 100`))
		if err != nil || len(names) == 0 {
			return db.Explain(err)
		}
		for _, name := range names {
			if err := os.Remove(filepath.Join(Folder(d.Path()), filepath.Base(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove a file that no message has: %w", err)
			}
		}
		err = d.Write(ctx, func(ctx context.Context, tx db.Tx) error {
			for _, name := range names {
				if err := exec(ctx, tx, `DELETE FROM unused_paths WHERE path = ?`, name); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = db.Pause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// leftoverAge is the minimum age of a file that is removed as a leftover.
const leftoverAge = time.Hour

// SweepFolder removes files from the folder that no blob has: leftovers of processes that died. It
// keeps files that are less than an hour old, or that a process has locked to write them. It does
// nothing on PostgreSQL, which has no folder.
func SweepFolder(ctx context.Context, d *db.DB, now time.Time) error {
	if db.IsURL(d.Path()) {
		return nil
	}
	entries, err := os.ReadDir(Folder(d.Path()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := db.Column[string](d.QueryContext(ctx, `SELECT path FROM blobs WHERE path <> '' UNION SELECT path FROM unused_paths`))
	if err != nil {
		return db.Explain(err)
	}
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || known[entry.Name()] || !info.Mode().IsRegular() || now.Sub(info.ModTime()) < leftoverAge {
			continue
		}
		if err := removeLeftover(ctx, d, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// removeLeftover removes a file, unless a process is writing it or a blob has it meanwhile.
func removeLeftover(ctx context.Context, d *db.DB, name string) error {
	file, err := os.Open(filepath.Join(Folder(d.Path()), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil // it is being written
	}
	var used bool
	err = d.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM blobs WHERE path = ?)`, name).Scan(&used)
	if err != nil || used {
		return db.Explain(err)
	}
	return os.Remove(file.Name())
}
