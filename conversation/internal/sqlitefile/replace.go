package sqlitefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"parley/internal/durable"
)

// Replaced is the result of Replace.
type Replaced struct {
	Origin string   // where the new file comes from, as the caller of Replace said
	Kept   []string // the new paths of the old files, the database first
}

// replacement is the record of a Replace. It is written beside the database before any file
// is renamed. Once it is there, the replacement is completed, never undone. Fresh and Aside
// are names of files in the folder of the database.
type replacement struct {
	Fresh  string `json:"fresh"`  // the new file
	Aside  string `json:"aside"`  // the name that the old file gets
	Origin string `json:"origin"` // see Replaced
}

// FolderSuffix follows the name of the database in the name of its folder of large files.
const FolderSuffix = ".files"

// Suffixes of the files and the folder that belong to one database.
var suffixes = [...]string{"", "-wal", "-shm", "-journal", FolderSuffix}

const recordSuffix = ".replacing"

// Replace replaces the database at path by the file fresh, which must be complete, synced and in
// the same folder. It renames the old database and the files beside it. After a crash,
// FinishReplace completes it. No process may have the database open.
func Replace(path, fresh, origin string, at time.Time) (Replaced, error) {
	r := replacement{Fresh: filepath.Base(fresh), Aside: asideName(path, at), Origin: origin}
	if err := r.write(path); err != nil {
		return Replaced{}, fmt.Errorf("replace %s: %w", path, errors.Join(err, ignoreNotExist(os.Remove(path+recordSuffix))))
	}
	done, err := r.finish(path)
	if err != nil {
		return done, fmt.Errorf("replace %s: %w", path, err)
	}
	return done, nil
}

// FinishReplace completes a Replace that was interrupted. pending reports that there was one.
func FinishReplace(path string) (done Replaced, pending bool, err error) {
	text, err := os.ReadFile(path + recordSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return done, false, nil
	}
	if err != nil {
		return done, true, err
	}
	var r replacement
	if err := json.Unmarshal(text, &r); err != nil {
		return done, true, fmt.Errorf("%s: %w", path+recordSuffix, err)
	}
	if done, err = r.finish(path); err != nil {
		return done, true, fmt.Errorf("finish replacing %s: %w", path, err)
	}
	return done, true, nil
}

// Replacing reports whether a Replace of the database was interrupted.
func Replacing(path string) bool {
	_, err := os.Lstat(path + recordSuffix)
	return err == nil
}

// asideName returns an unused name for the old files.
func asideName(path string, at time.Time) string {
	stem := filepath.Base(path) + ".before-" + at.Format("20060102-150405")
	name := stem
	for n := 2; taken(filepath.Join(filepath.Dir(path), name)); n++ {
		name = fmt.Sprintf("%s-%d", stem, n)
	}
	return name
}

func taken(path string) bool {
	for _, suffix := range suffixes {
		if _, err := os.Lstat(path + suffix); err == nil {
			return true
		}
	}
	return false
}

// write writes the record atomically.
func (r replacement) write(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+recordSuffix+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path+recordSuffix)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return SyncFolder(path)
}

// finish renames the files, as far as that was not done before, and deletes the record.
func (r replacement) finish(path string) (done Replaced, err error) {
	dir := filepath.Dir(path)
	fresh, aside := filepath.Join(dir, r.Fresh), filepath.Join(dir, r.Aside)
	if _, err := os.Lstat(fresh); err == nil { // otherwise it was renamed before the interruption
		if err := r.setAside(path, aside); err != nil {
			return done, err
		}
		if err := errors.Join(SyncFolder(path), os.Rename(fresh, path), SyncFolder(path)); err != nil {
			return done, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return done, err
	} else if _, err := os.Lstat(path); err != nil {
		return done, fmt.Errorf("neither it nor %s is there; what stood there before is %s (%w)", fresh, aside, err)
	}
	if err := errors.Join(os.Remove(path+recordSuffix), SyncFolder(path)); err != nil {
		return done, err
	}
	done.Origin = r.Origin
	for _, suffix := range suffixes {
		if _, err := os.Lstat(aside + suffix); err == nil {
			done.Kept = append(done.Kept, aside+suffix)
		}
	}
	return done, nil
}

// setAside renames the old files, the database first: after a crash in between, a log without
// its database is refused, but a database without its log would be opened. If the database
// can't be renamed, nothing is replaced.
func (r replacement) setAside(path, aside string) error {
	for _, suffix := range suffixes {
		if _, err := os.Lstat(aside + suffix); err == nil {
			if _, err := os.Lstat(path + suffix); err == nil {
				return fmt.Errorf("both %s and %s exist: rename one of them", path+suffix, aside+suffix)
			}
		}
		err := os.Rename(path+suffix, aside+suffix)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if suffix == "" {
			err = errors.Join(err, os.Remove(path+recordSuffix), SyncFolder(path))
		}
		return err
	}
	return nil
}

// SyncFolder syncs the folder of a file, so that the names in it survive a power failure.
func SyncFolder(path string) error {
	return durable.SyncFolder(filepath.Dir(path))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
