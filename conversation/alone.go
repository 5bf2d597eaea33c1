package conversation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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

// noteFile names the database file that this process, which is alone, opens. A
// disk that is full is no reason not to open it.
func (l *locks) noteFile(info os.FileInfo) {
	if same, err := l.isNoted(info); err != nil || !same {
		_, _ = l.file.WriteAt(fmt.Appendf(nil, "%*d\n", inodeLength, inode(info)), inodeOffset)
	}
}

// isNoted reports whether a file is the one that the other processes have open;
// io.EOF says that the lock file does not tell.
func (l *locks) isNoted(info os.FileInfo) (bool, error) {
	noted := make([]byte, inodeLength)
	if _, err := l.file.ReadAt(noted, inodeOffset); err != nil {
		return false, err
	}
	return string(bytes.TrimSpace(noted)) == strconv.FormatUint(inode(info), 10), nil
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
