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

// ErrInvalid says that a caller's value can't be stored.
var ErrInvalid = errors.New("invalid")

// ErrDamaged says that the database is damaged. IsDamaged reports true for it.
var ErrDamaged error = sqlite3.Error{Code: sqlite3.ErrCorrupt}

// errNotADatabase says that a file is no SQLite database.
var errNotADatabase error = sqlite3.Error{Code: sqlite3.ErrNotADB}

// Fault is the reason why the engine could not do something.
type Fault string

const (
	NoFault        Fault = "" // no error, or not an error of the engine
	Full           Fault = "full"
	Unwritable     Fault = "unwritable"
	Unopenable     Fault = "unopenable"
	DiskFailed     Fault = "disk failed"
	Busy           Fault = "busy"        // another process has a lock
	Unreachable    Fault = "unreachable" // the server can't be reached, or the connection to it was lost
	Locked         Fault = "locked"      // another connection of this process has a lock
	NoMemory       Fault = "no memory"
	Interrupted    Fault = "interrupted"
	Damaged        Fault = "damaged"
	NotADatabase   Fault = "not a database"
	AnotherFailure Fault = "another"
)

// FaultOf returns the fault behind an error of the engine.
func FaultOf(err error) Fault {
	if err == nil {
		return NoFault
	}
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return postgresFault(err)
	}
	if isNoRoom(e.SystemErrno) {
		return Full
	}
	if fault, known := faults[e.Code]; known {
		return fault
	}
	return AnotherFailure
}

var faults = map[sqlite3.ErrNo]Fault{
	sqlite3.ErrFull:      Full,
	sqlite3.ErrReadonly:  Unwritable,
	sqlite3.ErrCantOpen:  Unopenable,
	sqlite3.ErrIoErr:     DiskFailed,
	sqlite3.ErrBusy:      Busy,
	sqlite3.ErrLocked:    Locked,
	sqlite3.ErrNomem:     NoMemory,
	sqlite3.ErrInterrupt: Interrupted,
	sqlite3.ErrCorrupt:   Damaged,
	sqlite3.ErrNotADB:    NotADatabase,
}

// IsDamaged reports whether an error says that the database is damaged, so that another
// attempt can't help. A value that can't be decoded counts as damage, too.
func IsDamaged(err error) bool {
	switch FaultOf(err) {
	case Damaged, NotADatabase:
		return true
	case NoFault:
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		// database/sql has no type for the error of a value that can't be scanned.
		return errors.As(err, &syntax) || errors.As(err, &kind) || err != nil && strings.Contains(err.Error(), "sql: Scan error")
	}
	return false
}

// isCorrupt reports whether the engine found damage.
func isCorrupt(err error) bool {
	fault := FaultOf(err)
	return fault == Damaged || fault == NotADatabase
}

// IsDiskFull reports whether an error of the engine or of the file system says that the disk is full, so
// that nothing is stored until somebody makes room.
func IsDiskFull(err error) bool { return FaultOf(err) == Full || isNoRoom(err) }

// isNoRoom reports whether the file system has no room left, or none for this user.
func isNoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsTemporary reports whether a failed read may succeed later: the database is busy,
// closed, moved or unreachable, the read was interrupted, or the process lacks memory or
// file handles.
func IsTemporary(err error) bool {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrMoved) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch FaultOf(err) {
	case Busy, Locked, Unreachable, Unopenable, NoMemory, Interrupted:
		return true
	}
	return false
}

// DamageAdvice tells the operator what to do about a damaged database.
const DamageAdvice = "`gateway verify` says what is hit, `gateway repair FILE` saves what can be read into a new file, `gateway restore FILE` puts a copy in its place"

// Explain adds advice for the operator to an error of the engine. It returns other errors,
// and nil, unchanged.
func Explain(err error) error {
	fault := FaultOf(err)
	if fault == NoFault {
		return err
	}
	advice := sqliteAdvice[fault]
	var sqlite sqlite3.Error
	switch {
	case fault == Unreachable && !errors.Is(err, ErrMoved):
		return &unreachableError{err}
	case !errors.As(err, &sqlite):
		advice = postgresAdvice[fault]
	}
	if advice == "" || strings.Contains(err.Error(), advice) {
		return err
	}
	return fmt.Errorf("%s (%w)", advice, err)
}

// sqliteAdvice has the advice for the operator of a SQLite file.
var sqliteAdvice = map[Fault]string{
	Full:         "the disk is full: make room; a running gateway then goes on by itself",
	Unwritable:   "the database can't be written: let this user write the file, the files beside it and their folder",
	Unopenable:   "the database can't be opened: let this user read and write the file, the files beside it and their folder",
	DiskFailed:   "the disk failed or is full",
	Busy:         "another process keeps the database locked",
	Damaged:      "the file is damaged: " + DamageAdvice,
	NotADatabase: "the file is not a SQLite database",
}

// explainFile adds advice for the operator to an error of the file system. SQLite creates
// files beside the database, so the folder matters, too.
func explainFile(path string, err error) error {
	switch dir := filepath.Dir(path); {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the file system of %s is read-only: mount it writable, or set database to a path elsewhere (%w)", dir, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the user with the id %d may not write here: let it write to the folder %s and to the files in it that begin with %q, "+
			"or set database to a path elsewhere (%w)", os.Geteuid(), dir, filepath.Base(path), err)
	case isNoRoom(err) && FaultOf(err) == NoFault:
		return fmt.Errorf("the disk is full: make room (%w)", err)
	}
	return err
}
