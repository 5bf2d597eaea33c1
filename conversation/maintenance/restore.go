package maintenance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlitefile"
)

// Restored says what a Restore has done.
type Restored struct {
	Contents           // of the database now; not known when only an interrupted Restore was finished
	SetAside  []string // the files that stood there before, under their new names
	Finished  bool     // an interrupted Restore of the same copy was finished, and nothing else done
	Earlier   string   // an interrupted Restore of this other copy was finished first; "" for none
	EarlierAt []string // the files that that Restore has set aside
}

// Restore puts a copy in the place of the database, which no process may have
// open. The copy, with its log if it has one, is read and checked first, and
// stays as it is. The database that was there is kept under another name.
//
// A process that dies meanwhile leaves the old database or the new one; calling
// Restore again, or opening the database, does what is left to do.
func Restore(ctx context.Context, file, database string, progress Progress) (r Restored, err error) {
	if file, err = filepath.Abs(file); err != nil {
		return r, err
	}
	held, err := db.Exclude(database)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if done := held.Finished; done != nil {
		if done.Origin == file {
			return Restored{SetAside: done.Kept, Finished: true}, nil
		}
		r.Earlier, r.EarlierAt = done.Origin, done.Kept
	}
	if sameFile(file, held.Path) {
		return r, fmt.Errorf("%s is the database itself: name a copy of it", file)
	}
	d, err := newDraft(held.Path)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.discard()) }()
	if r.Contents, err = fillFrom(ctx, file, d, progress); err != nil {
		return r, err
	}
	if err := d.belongTo(held.Path); err != nil {
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if err := d.file.Sync(); err != nil {
		return r, explain(d.path, err)
	}
	fresh := d.path
	if err := d.close(); err != nil { // from here on it is not this function's to remove
		return r, err
	}
	done, err := held.Replace(fresh, file)
	if err != nil {
		if !sqlitefile.Replacing(held.Path) { // nothing was replaced
			return r, errors.Join(err, os.Remove(fresh))
		}
		return r, fmt.Errorf("%w; it is half done: mend this and call the command again, which finishes it", err)
	}
	r.SetAside = done.Kept
	return r, nil
}

// fillFrom makes a draft a checked copy of a file, which may be a database in
// use elsewhere.
func fillFrom(ctx context.Context, file string, d *draft, progress Progress) (c Contents, err error) {
	if err := checkFile(file); err != nil {
		return c, err
	}
	held, err := shareChecked(ctx, file)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	db, err := openToRead(held.Path)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return fill(ctx, db, held.Path, d, progress)
}

// belongTo changes the owner of the draft and the lock file to that of the database that it
// replaces, or of its folder: a restore by root must not lock the gateway out.
func (d *draft) belongTo(target string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(target)
	if errors.Is(err, os.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(target))
	}
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return errors.Join(d.file.Chown(int(owner.Uid), int(owner.Gid)), os.Chown(target+".lock", int(owner.Uid), int(owner.Gid)))
}
