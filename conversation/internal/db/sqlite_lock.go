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
// name. The kernel releases them when the process dies, and knows which process holds a
// lock. They are POSIX record locks: fcntl(2), F_SETLK and F_GETLK.
type locks struct {
	file *os.File

	mu    sync.Mutex
	held  map[string]int   // how often this process has taken each lock, since the kernel does not count
	kinds map[string]int16 // syscall.F_RDLCK or syscall.F_WRLCK, for each lock
}

const (
	migrationLock = "migration"
	daemonLock    = "daemon"
)

// DaemonPID returns the process id of a daemon that runs on the database at path, 0 if there
// is none. A process that has the database open must not call it, since closing the lock file
// would release its locks.
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

// otherDaemon returns the process id of another daemon that has the database open, or 0. Of several, it
// returns any one.
func (l *locks) otherDaemon() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	pid, _ := holder(l.file, daemonLock, syscall.F_WRLCK) // fails only where no lock can be taken either
	return pid
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

// close releases all locks and closes the file. Closing it alone does not suffice: a child process that is being started also has
// the file open until it executes its program.
func (l *locks) close() error {
	return errors.Join(l.leave(), l.file.Close())
}

// join marks this process as one that has the database open, until leave or close. alone
// reports that no other process has it open. sameBoot reports that the machine has not been
// rebooted since a process was last alone. The caller must hold the migration lock. join uses
// BSD locks, flock(2), which do not conflict with the record locks.
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

// flock calls flock(2), again after an interruption by a signal.
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

// noteBoot writes the boot id of the machine into the lock file, and reports whether it was
// already there. It reports false if the system has no boot id, or the disk is full.
func (l *locks) noteBoot() (same bool) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return false
	}
	stood := make([]byte, len(boot))
	if _, err := l.file.ReadAt(stood, 0); err == nil && bytes.Equal(boot, stood) {
		return true
	}
	_, _ = l.file.WriteAt(boot, 0) // after a failure the next start sees another boot id
	return false
}

// try takes a lock of a kind without waiting. If another process holds it, the error is errHeld and pid
// the id of that process.
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

// wait waits for an exclusive lock and takes it.
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
	// Unlocking a held region fails only if the file is closed, and then the lock is
	// released already.
	_ = syscall.FcntlFlock(l.file.Fd(), syscall.F_SETLK, region(name, syscall.F_UNLCK))
}

// holder returns the id of a process that holds a lock that conflicts with one of this kind. It
// returns 0 if there is none, or if the process is in another container.
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

// region returns a lock of a kind on the byte for a name. Names are hashed to 62 bits: among a
// million names, the chance that two of them collide is one in ten million.
func region(name string, kind int16) *syscall.Flock_t {
	h := fnv.New64a()
	io.WriteString(h, name)
	return &syscall.Flock_t{Type: kind, Whence: io.SeekStart, Start: int64(h.Sum64() >> 2), Len: 1}
}
