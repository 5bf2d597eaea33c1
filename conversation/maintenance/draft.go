package maintenance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"parley/conversation/internal/sqlitefile"
)

// draft is a file that is being made beside the one that it shall become. Until
// it is put there, nothing else is touched; what an earlier process left of it
// when it died is used again.
type draft struct {
	path string
	file *os.File // the open draft, whose lock is held while the draft is being made
}

// draftName returns a name that no other file has, the same each time.
func draftName(target string) string {
	return filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".unfinished")
}

// newDraft makes an empty file, readable by its owner alone.
func newDraft(target string) (*draft, error) {
	path := draftName(target)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, explainDraft(target, err)
	}
	d := &draft{path: path, file: file}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("another process is writing %s: wait for it", path), file.Close())
	}
	if err == nil {
		err = errors.Join(file.Truncate(0), file.Chmod(0o600), d.removeSide())
	}
	if err != nil {
		return nil, errors.Join(explainDraft(target, err), file.Close())
	}
	return d, nil
}

func explainDraft(target string, err error) error {
	dir := filepath.Dir(target)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("the folder %s does not exist", dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the user with the id %d may not write to the folder %s (%w)", os.Geteuid(), dir, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the file system of %s is read-only", dir)
	}
	return explain(target, err)
}

// removeSide removes what SQLite has made beside the draft.
func (d *draft) removeSide() (err error) {
	for _, suffix := range []string{"-wal", "-shm", "-journal", ".lock"} {
		if e := os.Remove(d.path + suffix); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// discard removes the draft, if it is still one.
func (d *draft) discard() error {
	if d.file == nil {
		return nil
	}
	err := errors.Join(os.Remove(d.path), d.removeSide())
	return errors.Join(err, d.close())
}

func (d *draft) close() error {
	file := d.file
	d.file = nil
	return file.Close()
}

// publish renames the draft to its final name once it is on disk. Without replace it never
// takes that of another file.
func (d *draft) publish(target string, replace bool) error {
	if err := errors.Join(d.removeSide(), d.file.Sync()); err != nil {
		return err
	}
	var err error
	if replace {
		err = os.Rename(d.path, target)
	} else {
		err = renameNew(d.path, target)
	}
	if errors.Is(err, fs.ErrExist) {
		return existsError(target)
	}
	if err != nil {
		return err
	}
	return errors.Join(d.close(), sqlitefile.SyncFolder(target))
}

func existsError(target string) error {
	return fmt.Errorf("%s exists already: name another file, or --force to replace it", target)
}

// renameNew renames a file unless the new name is taken. Where the file system
// has no links, somebody who takes the name at the same moment loses.
func renameNew(from, to string) error {
	err := os.Link(from, to)
	if err == nil {
		return os.Remove(from)
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return os.Rename(from, to)
}
