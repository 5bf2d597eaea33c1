package db

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"parley/conversation/internal/postgres"
)

// othersBits are the permissions of group and others.
const othersBits fs.FileMode = 0o077

// tightenFiles removes the permissions of group and others on an existing database and the
// files beside it. If a file belongs to another user and can't be changed, tightenFiles logs
// that and goes on.
func (f *sqliteFile) tightenFiles() {
	for _, file := range []string{f.path, f.path + "-wal", f.path + "-shm", f.path + ".lock"} {
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&othersBits == 0 {
			continue // SQLite creates missing files with the mode of the database
		}
		before, after := info.Mode().Perm(), info.Mode().Perm()&^othersBits
		switch err := os.Chmod(file, after); {
		case errors.Is(err, fs.ErrNotExist): // another process has closed the database
		case err != nil:
			f.log.Warn("other users of this machine may reach what people said, and the file's mode can't be changed",
				"file", file, "mode", octal(before), "error", err)
		default:
			f.log.Warn("other users of this machine could reach what people said; the file's mode was tightened",
				"file", file, "mode", octal(after), "before", octal(before))
		}
	}
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode) }

// RealPath returns the absolute path of a database file. Like SQLite, it resolves symbolic links, so
// that every process finds the same lock file beside it. For the URL of a database, it returns the URL
// without passwords.
func RealPath(path string) (string, error) {
	if IsURL(path) {
		return postgres.Redact(path), nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file, nil
	}
	if target, err := os.Readlink(path); err == nil { // to a file that does not exist yet
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path)), nil
	}
	return path, nil
}

// checkPlace returns an error for a path at which no database file can be: that of a folder, or one in a folder that does not exist.
func checkPlace(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("open %s: it is a folder: name a file in it", path)
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("open %s: the folder %s does not exist", path, dir)
	case err != nil:
		return fmt.Errorf("open %s: %w", path, err)
	case !info.IsDir():
		return fmt.Errorf("open %s: %s is not a folder", path, dir)
	}
	return nil
}

// makePrivate creates the file if there is none. Only its owner can read it, since it will
// hold private messages. SQLite gives the files beside it the same permissions. makePrivate
// fails if the file can't be written; SQLite would open such a file, and fail only when the
// first message is stored. It also fails for a file of one byte, which SQLite takes for an
// empty one and overwrites.
func makePrivate(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && info.Size() == 1 {
		err = errNotADatabase
	}
	return err
}
