package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// ErrClosed says that Close was called before.
var ErrClosed = errors.New("the database is closed")

// ErrDamaged is an error of IsDamaged.
var ErrDamaged error = sqlite3.Error{Code: sqlite3.ErrCorrupt}

// IsDamaged reports whether an error says that the file is damaged, so that trying
// again can't help.
func IsDamaged(err error) bool {
	if isCorrupt(err) {
		return true
	}
	if errors.As(err, new(sqlite3.Error)) {
		return false
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	// database/sql has no type for a value that is not what was stored.
	return errors.As(err, &syntax) || errors.As(err, &kind) || err != nil && strings.Contains(err.Error(), "sql: Scan error")
}

// isCorrupt reports whether SQLite found damage.
func isCorrupt(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB)
}

// IsTemporary reports whether the next try may succeed where a read failed: the
// database is busy or closed, or the process lacks memory or file handles.
func IsTemporary(err error) bool {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrMoved) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var failed sqlite3.Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code {
	case sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrCantOpen, sqlite3.ErrNomem, sqlite3.ErrInterrupt:
		return true
	}
	return false
}

// DamageAdvice tells the operator what to do about a damaged file.
const DamageAdvice = "`gateway verify` says what is hit, `gateway repair FILE` saves what can be read into a new file, `gateway restore FILE` puts a copy in its place"

// Explain adds to an error of the engine what the operator can do about it. It
// returns other errors, and nil, as they are.
func Explain(err error) error {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return err
	}
	advice := map[sqlite3.ErrNo]string{
		sqlite3.ErrFull:     "the disk is full: make room, and work goes on by itself",
		sqlite3.ErrReadonly: "the database can't be written: let this user write the file, the files beside it and their folder",
		sqlite3.ErrCantOpen: "the database can't be opened: let this user read and write the file, the files beside it and their folder",
		sqlite3.ErrIoErr:    "the disk failed or is full",
		sqlite3.ErrBusy:     "another process keeps the database locked",
		sqlite3.ErrCorrupt:  "the file is damaged: " + DamageAdvice,
		sqlite3.ErrNotADB:   "the file is not a SQLite database",
	}[e.Code]
	if advice == "" || strings.Contains(err.Error(), advice) {
		return err
	}
	return fmt.Errorf("%s (%w)", advice, err)
}

// explainFile adds to an error of the file system what the operator can do
// about it. SQLite creates files beside the database, so the folder matters too.
func explainFile(path string, err error) error {
	switch dir := filepath.Dir(path); {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the file system of %s is read-only: mount it writable, or set database to a path elsewhere (%w)", dir, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the user with the id %d may not write here: let it write to the folder %s and to the files in it that begin with %q, "+
			"or set database to a path elsewhere (%w)", os.Geteuid(), dir, filepath.Base(path), err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the disk is full: make room (%w)", err)
	}
	return err
}
