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

// leave ends what join began.
func (l *locks) leave() error { return flock(l.file, syscall.LOCK_UN) }

// alone keeps every other process from opening the database until release is
// called. It fails when one has it open.
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

// The lock file names the database file that is open, so that a process which
// comes later does not take another one for it, which somebody has put in its
// place: both would write one log.
const (
	inodeOffset = 64 // in the lock file
	inodeLength = 20
)

// database is the path of the database that the locks are for.
func (l *locks) database() string { return strings.TrimSuffix(l.file.Name(), lockSuffix) }

// noteFile names the database file that this process, which is alone, opens, or
// none where there is none yet. A disk that is full is no reason not to open it.
func (l *locks) noteFile() {
	name := ""
	if info, err := os.Stat(l.database()); err == nil {
		name = strconv.FormatUint(inode(info), 10)
	}
	if noted, err := l.noted(); err != nil || noted != name {
		_, _ = l.file.WriteAt(fmt.Appendf(nil, "%*s\n", inodeLength, name), inodeOffset)
	}
}

// noted is the file that the processes have open which have the database open;
// io.EOF says that the lock file does not tell.
func (l *locks) noted() (string, error) {
	text := make([]byte, inodeLength)
	_, err := l.file.ReadAt(text, inodeOffset)
	return string(bytes.TrimSpace(text)), err
}

// errNoLog says that the log of a database, or its index, is gone.
var errNoLog = fmt.Errorf("%w: another process has it open, and its write-ahead log is gone. That process makes it anew as soon as it is the only one", ErrMoved)

// checkShared checks that the database which other processes have open is the one
// that stands at the path, with its log: SQLite would use a new log, or replay the
// old one into another file.
func (l *locks) checkShared() error {
	path := l.database()
	noted, err := l.noted()
	if errors.Is(err, io.EOF) { // a version of the gateway that notes nothing
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

// lacksLog returns errNoLog if another process has a connection to the database:
// then it has a log, which is gone. Who only reads the file needs none.
func lacksLog(path string) error {
	connected, _, err := sqliteUser(path)
	if err == nil && connected {
		err = errNoLog
	}
	return err
}

func inode(info os.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Ino) }

// renew takes all locks in the file that stands at the path now, which is made
// if there is none. It fails when another process has one of them.
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

// takeAll takes the locks that are held in another file, and copies what the
// held one says.
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
