package db

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// errNotAlone says that the database is open elsewhere.
var errNotAlone = errors.New("another process, such as a `gateway chat`, has the database open too; end it")

// leave releases the lock that join has taken.
func (l *locks) leave() error { return flock(l.file, syscall.LOCK_UN) }

// alone keeps other processes from opening the database until release is called. It fails
// if one of them has it open.
func (l *locks) alone() (release func(), err error) {
	_, unlock, err := l.try(migrationLock, syscall.F_WRLCK)
	if errors.Is(err, errHeld) {
		return nil, errNotAlone
	}
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	alone, _, err := l.join()
	l.mu.Unlock()
	if err == nil && !alone {
		err = errNotAlone
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// The lock file holds the inode of the open database file. If somebody has replaced the
// file, a process that starts later notices it. Otherwise two processes would write the same
// log for different files.
const (
	inodeOffset = 64 // in the lock file
	inodeLength = 20
)

// database is the path of the database that the locks are for.
func (l *locks) database() string { return strings.TrimSuffix(l.file.Name(), lockSuffix) }

// noteFile writes the inode of the database file into the lock file, or spaces if the database does
// not exist yet. No other process may have the database open. noteFile ignores errors, such as a full
// disk.
func (l *locks) noteFile() {
	name := ""
	if info, err := os.Stat(l.database()); err == nil {
		name = strconv.FormatUint(inode(info), 10)
	}
	if noted, err := l.noted(); err != nil || noted != name {
		_, _ = l.file.WriteAt(fmt.Appendf(nil, "%*s\n", inodeLength, name), inodeOffset)
	}
}

// noted returns the inode in the lock file, of the database file that other processes have open. The
// error is io.EOF if the lock file has none.
func (l *locks) noted() (string, error) {
	text := make([]byte, inodeLength)
	_, err := l.file.ReadAt(text, inodeOffset)
	return string(bytes.TrimSpace(text)), err
}

// errNoLog says that the log of a database, or its index, is gone.
var errNoLog = fmt.Errorf("%w: another process has it open, and its write-ahead log is gone. That process makes it anew as soon as it is the only one", ErrMoved)

// checkShared returns an error unless the database that other processes have open is the one
// at the path, with its log. Otherwise SQLite would create a new log, or replay the old one
// into another file.
func (l *locks) checkShared() error {
	path := l.database()
	noted, err := l.noted()
	if errors.Is(err, io.EOF) { // an earlier version of the gateway has written the lock file
		return nil
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err != nil || noted != "" && noted != strconv.FormatUint(inode(info), 10) {
		return fmt.Errorf("%w: another process has it open, and what stands at %s now is not that file. "+
			"Move the file back, or stop that process first", ErrMoved, path)
	}
	for _, suffix := range []string{walSuffix, indexSuffix} {
		if _, err := os.Stat(path + suffix); errors.Is(err, os.ErrNotExist) {
			return lacksLog(path)
		}
	}
	return nil
}

// lacksLog returns errNoLog if another process has a connection to the database, which needs
// a log. A process that only reads the file needs none.
func lacksLog(path string) error {
	connected, _, err := sqliteUser(path)
	if err == nil && connected {
		err = errNoLog
	}
	return err
}

func inode(info os.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Ino) }

// renew takes all locks again in the lock file that is at the path now, and creates the file
// if necessary. It fails if another process holds one of the locks.
func (l *locks) renew() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.OpenFile(l.file.Name(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := l.takeAll(file); err != nil {
		return errors.Join(err, file.Close())
	}
	old := l.file
	l.file = file
	return old.Close()
}

// takeAll takes the same locks in another file and copies the content of the lock file.
func (l *locks) takeAll(file *os.File) error {
	for name := range l.held {
		err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, region(name, l.kinds[name]))
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
			pid, err := holder(file, name, l.kinds[name])
			return errors.Join(err, fmt.Errorf("process %d has taken %q meanwhile", pid, name))
		}
		if err != nil {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
	if err := flock(file, syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil || info.Size() > 0 {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, inodeOffset+inodeLength+1))
	if err != nil {
		return err
	}
	_, err = file.WriteAt(text, 0)
	return err
}
