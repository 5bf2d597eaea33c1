package db

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"sync"
	"syscall"
)

// locks are advisory locks on bytes of a file beside the database, one byte for each
// name. The kernel releases them when the process dies, however it dies, and tells which
// process holds one. They are POSIX record locks: fcntl(2), F_SETLK and F_GETLK.
type locks struct {
	file *os.File

	mu    sync.Mutex
	held  map[string]int   // how often this process has taken each; the kernel does not count
	kinds map[string]int16 // how it has taken each: syscall.F_RDLCK or syscall.F_WRLCK
}

const (
	migrationLock = "migration"
	daemonLock    = "daemon"
)

// HeldError says that another process has a lock.
type HeldError struct {
	PID int // 0 when it can't be told, for example in another container
}

func (e *HeldError) Error() string {
	if e.PID > 0 {
		return fmt.Sprintf("held by process %d", e.PID)
	}
	return "held by another process"
}

// Lock takes the lock of a name for this process until release is called or the
// process dies. It does not wait: it fails with *HeldError when another process has
// the lock. The same process may take it again, and calls release once for each time.
func (d *DB) Lock(name string) (release func(), err error) {
	pid, release, err := d.locks.try(name, syscall.F_WRLCK)
	if errors.Is(err, errHeld) {
		return nil, &HeldError{PID: pid}
	}
	return release, err
}

// MarkDaemon tells DaemonPID, for as long as this process lives, that a daemon runs on
// this database. Several daemons may.
func (d *DB) MarkDaemon() error {
	_, _, err := d.locks.try(daemonLock, syscall.F_RDLCK)
	return err
}

// DaemonPID returns the process id of a daemon that runs on the database at path, 0
// when there is none. It is not for a process that has the database open: closing the
// lock file would release its locks.
func DaemonPID(path string) (int, error) {
	path, err := RealPath(path)
	if err != nil {
		return 0, err
	}
	file, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return holder(file, daemonLock, syscall.F_WRLCK)
}

var errHeld = errors.New("held by another process")

// openLocks opens the lock file with the flags of os.OpenFile.
func openLocks(path string, flag int) (*locks, error) {
	file, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &locks{file: file, held: map[string]int{}, kinds: map[string]int16{}}, nil
}

func (l *locks) close() error { return l.file.Close() }

// join tells other processes, until close, that this one has the database open. alone
// reports that no other process has. sameBoot reports that the machine has not been
// rebooted since the latest process that was alone. The caller holds the migration lock.
// join uses BSD locks, flock(2), which do not conflict with the record locks.
func (l *locks) join() (alone, sameBoot bool, err error) {
	err = flock(l.file, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		alone, sameBoot = true, l.noteBoot()
		l.noteFile()
	} else if !errors.Is(err, syscall.EWOULDBLOCK) {
		return false, false, err
	}
	return alone, sameBoot, flock(l.file, syscall.LOCK_SH)
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return wrapLock(file, err)
		}
	}
}

func wrapLock(file *os.File, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock %s: %w", file.Name(), err)
}

// noteBoot writes down which start of the machine this is, and reports whether
// it is the one that stood there. Where the system has no name for it, or the disk
// no room, it is not.
func (l *locks) noteBoot() (same bool) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return false
	}
	stood := make([]byte, len(boot))
	if _, err := l.file.ReadAt(stood, 0); err == nil && bytes.Equal(boot, stood) {
		return true
	}
	_, _ = l.file.WriteAt(boot, 0) // what does not stand there is not the same
	return false
}

func (l *locks) try(name string, kind int16) (pid int, release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] > 0 {
		l.held[name]++
		return 0, func() { l.release(name) }, nil
	}
	err = syscall.FcntlFlock(l.file.Fd(), syscall.F_SETLK, region(name, kind))
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		pid, err := holder(l.file, name, kind)
		return pid, nil, errors.Join(errHeld, err)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("lock %s: %w", l.file.Name(), err)
	}
	l.held[name]++
	l.kinds[name] = kind
	return 0, func() { l.release(name) }, nil
}

// wait takes an exclusive lock, however long that takes.
func (l *locks) wait(name string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		err = syscall.FcntlFlock(l.file.Fd(), syscall.F_SETLKW, region(name, syscall.F_WRLCK))
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.file.Name(), err)
	}
	l.held[name]++
	l.kinds[name] = syscall.F_WRLCK
	return func() { l.release(name) }, nil
}

func (l *locks) release(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name]--; l.held[name] > 0 {
		return
	}
	delete(l.held, name)
	delete(l.kinds, name)
	// Unlocking a region that this process holds has no way to fail but a
	// closed file, and then the lock is gone too.
	_ = syscall.FcntlFlock(l.file.Fd(), syscall.F_SETLK, region(name, syscall.F_UNLCK))
}

// holder returns the id of the process that holds a lock which conflicts, 0 when none
// does or the id means nothing here.
func holder(file *os.File, name string, kind int16) (int, error) {
	lock := region(name, kind)
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, lock); err != nil {
		return 0, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	if lock.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return int(lock.Pid), nil
}

// region returns the byte that stands for a name: names are hashed to 62 bits, where
// two of a million meet with a chance of one in ten million.
func region(name string, kind int16) *syscall.Flock_t {
	h := fnv.New64a()
	io.WriteString(h, name)
	return &syscall.Flock_t{Type: kind, Whence: io.SeekStart, Start: int64(h.Sum64() >> 2), Len: 1}
}
