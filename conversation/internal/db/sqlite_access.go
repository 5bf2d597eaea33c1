package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"parley/conversation/internal/sqlitefile"
)

// Access holds the locks of a database that is copied, checked or replaced as a file, not
// used through a Store.
type Access struct {
	Path  string // the path of the file, with symbolic links resolved
	Alone bool   // no other process has the database open

	Finished *Replaced // the interrupted Replace that was finished first; nil = there was none

	locks    *locks // nil = there is no lock file
	release  func() // releases the migration lock
	sameBoot bool
}

// InUseError says that other processes have the database open.
type InUseError struct {
	Path string
	PID  int // the process id of a gateway that serves it, or else of another process; 0 = it is not known
}

func (e *InUseError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s has %s open: stop it first", who, e.Path)
}

// Share keeps other processes from replacing the database at path, which this one reads,
// until Close.
func Share(path string) (*Access, error) {
	a, err := access(path, os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.EROFS) { // no gateway has opened the database yet, or none can open it
		path, err = RealPath(path)
		return &Access{Path: path, Alone: true, release: func() {}}, err
	}
	if err != nil {
		return nil, err
	}
	a.Alone, a.sameBoot, err = a.locks.join()
	switch {
	case err == nil && a.Alone:
		a.Finished, err = finishReplace(a.Path)
		a.locks.noteFile()
	case err == nil:
		err = a.locks.checkShared()
	}
	a.release()
	a.release = func() {}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Exclude keeps every other process from opening the database at path until
// Close. The error is an *InUseError if another process has it open.
func Exclude(path string) (*Access, error) {
	a, err := access(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err = a.exclude(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// access opens the lock file and takes the migration lock.
func access(path string, flag int) (*Access, error) {
	path, err := RealPath(path)
	if err != nil {
		return nil, err
	}
	if err := checkPlace(path); err != nil {
		return nil, err
	}
	locks, err := openLocks(path+lockSuffix, flag)
	if err != nil {
		return nil, explainFile(path, err)
	}
	release, err := locks.wait(migrationLock)
	if err != nil {
		return nil, errors.Join(err, locks.close())
	}
	return &Access{Path: path, locks: locks, release: release}, nil
}

// exclude takes the lock that every gateway with the database open shares. It also looks for
// processes that do not take this lock: earlier versions of the gateway, and other programs.
func (a *Access) exclude() error {
	err := flock(a.locks.file, syscall.LOCK_EX|syscall.LOCK_NB)
	inUse := errors.Is(err, syscall.EWOULDBLOCK)
	if err != nil && !inUse {
		return err
	}
	connected, pid, err := sqliteUser(a.Path)
	if err != nil {
		return err
	}
	daemon, err := holder(a.locks.file, daemonLock, syscall.F_WRLCK)
	if err != nil {
		return err
	}
	if inUse || connected || daemon != 0 {
		return &InUseError{Path: a.Path, PID: cmp.Or(daemon, pid)}
	}
	a.Alone, a.sameBoot = true, a.locks.noteBoot()
	a.Finished, err = finishReplace(a.Path)
	return err
}

// finishReplace calls sqlitefile.FinishReplace. It returns nil if no Replace was interrupted.
func finishReplace(path string) (*Replaced, error) {
	done, pending, err := sqlitefile.FinishReplace(path)
	if !pending || err != nil {
		return nil, err
	}
	return &Replaced{Origin: done.Origin, Kept: done.Kept}, nil
}

// Close releases the locks.
func (a *Access) Close() error {
	a.release()
	if a.locks == nil {
		return nil
	}
	return a.locks.close()
}

// CheckLog returns a *ForeignLogError if the write-ahead log beside the database was written
// for another file. It may only be called if Alone is true.
func (a *Access) CheckLog(ctx context.Context) error {
	_, err := checkLog(ctx, slog.New(slog.DiscardHandler), a.Path, a.sameBoot)
	return err
}

// Replaced describes what Replace did to a database.
type Replaced struct {
	Origin string   // where the new database comes from, as the caller of Replace said
	Kept   []string // the new paths of the old files, the database first
}

// Replace replaces the database by the file fresh, which must be complete, synced and in the
// same folder. It renames the old database and its write-ahead log. It may only be called on
// the result of Exclude.
//
// If the process dies during Replace, the next process that opens the database finishes the
// replacement.
func (a *Access) Replace(fresh, origin string) (Replaced, error) {
	done, err := sqlitefile.Replace(a.Path, fresh, origin, time.Now())
	return Replaced{Origin: done.Origin, Kept: done.Kept}, err
}

// Exists reports whether there is a database at path, or will be one when an interrupted
// restore is finished.
func Exists(path string) (bool, error) {
	path, err := RealPath(path)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return sqlitefile.Replacing(path), nil
	}
	return err == nil, err
}

// The bytes of a database file on which every connection to a database in WAL
// mode holds a shared lock: "File Locking" in SQLite's os.h.
const (
	sqliteSharedFirst = 0x40000000 + 2
	sqliteSharedSize  = 510
)

// sqliteUser reports whether another process, of any program, has a connection to the
// database, and returns its process id, 0 if that is not known.
func sqliteUser(path string) (connected bool, pid int, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	defer file.Close()
	lock := &syscall.Flock_t{Type: syscall.F_WRLCK, Start: sqliteSharedFirst, Len: sqliteSharedSize}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, lock); err != nil {
		return false, 0, fmt.Errorf("lock %s: %w", path, err)
	}
	return lock.Type != syscall.F_UNLCK, max(0, int(lock.Pid)), nil
}
