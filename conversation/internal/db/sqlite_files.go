package db

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// SQLite writes to the files that it has open. If somebody moves, deletes or replaces them
// under a running process, writes still succeed, but their data is gone at the next start.
// So before a write is reported as stored, the store compares the files at the paths with
// the open ones.

// ErrMoved says that the file at the path of the database is not the one that is open, or
// that the write-ahead log was taken away. Nothing is stored until it is put back.
var ErrMoved = errors.New("the database was taken away from the running process")

// openFiles are the files of an open database.
type openFiles struct {
	given string   // the path as it was given, absolute; it may be a link
	path  string   // of the database file
	held  *os.File // the database file, to find out where it was moved; nil where the system can't tell

	mu     sync.RWMutex // held for reading while a connection is opened
	closed bool         // no connection may be opened
	known  []openFile
	left   map[string]fileVersion // by suffix, the files when the database was moved away
	saved  string                 // path of a copy of the deleted database; "" = none was made
}

// openFile is one of the files.
type openFile struct {
	suffix string // "" for the database
	path   string
	info   os.FileInfo
}

func versionOf(info os.FileInfo) fileVersion { return fileVersion{info.ModTime(), info.Size()} }

// The files beside the database: the write-ahead log, its index in shared memory, and the
// locks on sessions.
const (
	walSuffix   = "-wal"
	indexSuffix = "-shm"
	lockSuffix  = ".lock"
)

// misplaced describes a file that is not where it was opened.
type misplaced struct {
	path   string
	suffix string // which of the files; "" = the database
	gone   bool   // there is no file at the path; false = another file is there
	err    error  // why the path can't be read; nil if it can
}

// newOpenFiles records the files that are at the paths now. The caller has opened a
// connection and read from it.
func newOpenFiles(given, path string) (*openFiles, error) {
	f := &openFiles{given: given, path: path, left: map[string]fileVersion{}}
	for _, suffix := range []string{"", lockSuffix, walSuffix, indexSuffix} {
		f.known = append(f.known, openFile{suffix: suffix, path: path + suffix})
	}
	if given != path {
		f.known = append(f.known, openFile{path: given})
	}
	var err error
	if f.held, err = holdFile(path); err != nil {
		return nil, err
	}
	return f, f.learn("", lockSuffix, walSuffix, indexSuffix)
}

// learn records the files that are now at the paths with these suffixes.
func (f *openFiles) learn(suffixes ...string) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.known {
		if file := &f.known[i]; slices.Contains(suffixes, file.suffix) {
			if file.info, err = os.Stat(file.path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *openFiles) close() error {
	if f.held == nil {
		return nil
	}
	return f.held.Close()
}

// look compares the paths with the open files and returns the first misplaced one, or nil.
func (f *openFiles) look() *misplaced {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.lookHeld()
}

// lookHeld is look for a caller that holds mu.
func (f *openFiles) lookHeld() *misplaced {
	for i := range f.known {
		if m := f.known[i].look(); m != nil {
			return m
		}
	}
	return nil
}

// look returns nil if the open file is still at its path, and otherwise what is there.
func (f *openFile) look() *misplaced {
	info, err := os.Stat(f.path)
	switch {
	case err == nil && os.SameFile(info, f.info):
		return nil
	case errors.Is(err, os.ErrNotExist):
		return &misplaced{path: f.path, suffix: f.suffix, gone: true}
	}
	return &misplaced{path: f.path, suffix: f.suffix, err: err}
}

// database is look for the database file alone.
func (f *openFiles) database() *misplaced {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.known[0].look()
}

// opens calls open, which opens a connection, only if the database is in place. Otherwise
// SQLite would create a new file, or write into another one.
func (f *openFiles) opens(open func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return fmt.Errorf("%w: %s is being opened again", ErrMoved, f.path)
	}
	if m := f.lookHeld(); m != nil {
		return f.explain(m)
	}
	return open()
}

// setClosed forbids new connections, or allows them again.
func (f *openFiles) setClosed(closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = closed
}

// forget deletes what leave has recorded. It is called when all connections were opened again, or the
// database is back in its place.
func (f *openFiles) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.left)
}

// leave records the versions of the database and its log when the database is moved away.
func (f *openFiles) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.left)
	if f.held != nil {
		if info, err := f.held.Stat(); err == nil {
			f.left[""] = versionOf(info)
		}
	}
	for _, file := range f.known {
		if info, err := os.Stat(file.path); err == nil && file.suffix == walSuffix && os.SameFile(info, file.info) {
			f.left[walSuffix] = versionOf(info)
		}
	}
}

// unchanged reports whether the files that are in place have the versions that leave has
// recorded. The open connections do not know what another program has written in between,
// and would damage it.
func (f *openFiles) unchanged() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, file := range f.known {
		left, known := f.left[file.suffix]
		if info, err := os.Stat(file.path); known && err == nil && os.SameFile(info, file.info) && versionOf(info) != left {
			return false
		}
	}
	return true
}

func (f *openFiles) setSaved(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved = path
}

// fate returns the path to which the database file was moved, if the system knows it, or
// that it was deleted.
func (f *openFiles) fate() (now string, deleted bool) {
	if f.held == nil {
		return "", false
	}
	now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.held.Fd()))
	if err != nil {
		return "", false
	}
	if links(f.held) == 0 {
		return "", true
	}
	return strings.TrimSuffix(now, " (deleted)"), false
}

// explain returns an error that wraps ErrMoved, names the misplaced file and tells the operator what to do.
func (f *openFiles) explain(m *misplaced) error {
	return fmt.Errorf("%w: %s", ErrMoved, f.words(m))
}

func (f *openFiles) words(m *misplaced) string {
	const meanwhile = "; nothing is stored or answered meanwhile"
	switch {
	case m.err != nil:
		return fmt.Sprintf("%s can't be looked at (%v)%s", m.path, m.err, meanwhile)
	case m.suffix == "":
		return f.wordsOfDatabase(m, meanwhile)
	case m.gone:
		return m.path + " is gone" + meanwhile
	}
	return "another file stands in the place of " + m.path + meanwhile
}

func (f *openFiles) wordsOfDatabase(m *misplaced, meanwhile string) string {
	const (
		restore = "stop the gateway, put a copy in its place with `gateway restore %s`, and start it again"
		anew    = "to use the file that stands there now, stop the gateway and start it again"
	)
	what := "another file stands at " + m.path
	if m.gone {
		what = "there is no file at " + m.path
	}
	now, deleted := f.fate()
	if deleted {
		what += ", and the one that is open was deleted" + meanwhile
		copied := "FILE"
		if f.saved != "" {
			what, copied = what+". All that it held was saved as "+f.saved, f.saved
		}
		advice := fmt.Sprintf(restore, copied)
		if !m.gone {
			advice = "to have that back, " + advice + "; " + anew
		}
		return what + ": " + advice
	}
	if now != "" && now != m.path {
		what += ", and the one that is open is now " + now
	}
	if m.gone {
		return what + meanwhile + ". Move it back, and the gateway goes on by itself; or " + fmt.Sprintf(restore, "FILE")
	}
	return what + meanwhile + ". Move the open one back, and the gateway goes on by itself; " + anew
}
