package sqlitefile

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Verdict says how a write-ahead log and the database file beside it go
// together.
type Verdict int

const (
	// NoLog: the log holds nothing, as after an orderly end.
	NoLog Verdict = iota
	// Belongs: the log continues this file.
	Belongs
	// Unknown: what the two hold does not tell. The log may have been written by
	// a version that kept no epochs, or by another program.
	Unknown
	// Foreign: the log was written for another file, and SQLite would replay it
	// into this one.
	Foreign
)

// FileEpoch is the epoch that a database file holds without its log.
type FileEpoch struct {
	Readable bool // false when the file alone does not tell, as in the middle of a checkpoint
	Name     string
	Page     uint32 // root page of the table; 0 when there is no such table
}

// CheckWAL says whether the log beside a database belongs to it. It writes
// nothing. No process may have the database open. epoch is asked for the file's
// epoch when that matters.
//
// sameBoot says that the machine has not been started anew since a process had
// the database open: then the log's index is what that process left, and tells
// also of a file that was replaced by a copy made a moment before.
func CheckWAL(database string, sameBoot bool, epoch func() FileEpoch) (Verdict, error) {
	wal, err := ReadWAL(database + "-wal")
	if wal == nil || err != nil {
		return NoLog, err
	}
	size, err := pageSizeOf(database)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errEmpty): // SQLite would delete the log
		return Foreign, nil
	case err != nil:
		return Unknown, err
	case size == 0: // the log may hold the first page
		return Unknown, nil
	case size != wal.PageSize:
		return Foreign, nil
	}
	stands := epoch()
	if !stands.Readable || len(wal.epochs) == 0 {
		return Unknown, nil
	}
	return wal.continues(stands, database, sameBoot), nil
}

// continues compares the epoch of the database file with those of the log.
func (w *WAL) continues(stands FileEpoch, database string, sameBoot bool) Verdict {
	first := w.epochs[0]
	if stands.Page == 0 {
		if first.previous == noEpoch { // the table was made in this log
			return Unknown
		}
		return Foreign
	}
	in := slices.IndexFunc(w.epochs, func(e epochFrame) bool { return e.name == stands.Name })
	if first.page != stands.Page || in < 0 && stands.Name != first.previous {
		return Foreign
	}
	index, ok := readIndex(database+"-shm", w.Salt)
	if !ok || !sameBoot {
		return Belongs
	}
	last := w.epochs[len(w.epochs)-1]
	switch {
	case in >= 0 && w.epochs[in].frame > index.attempted: // it was never written to this file
		return Foreign
	case last.frame <= index.backfilled && stands.Name != last.name: // the newest was, and no earlier one need be
		return Foreign
	}
	return Belongs
}

var errEmpty = errors.New("empty file")

// pageSizeOf reads the header of a database file; 0 when it is damaged.
func pageSizeOf(path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	header := make([]byte, databaseHeader)
	n, err := file.ReadAt(header, 0)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return 0, errEmpty
	case errors.Is(err, io.EOF):
		return 0, nil
	case err != nil:
		return 0, err
	}
	size, _ := pageSize(header)
	return size, nil
}

const databaseHeader = 100

// pageSize reads the header of a database file; ok says that it is one.
func pageSize(header []byte) (size int, ok bool) {
	if string(header[:16]) != "SQLite format 3\x00" {
		return 0, false
	}
	size = int(binary.BigEndian.Uint16(header[16:]))
	if size == 1 {
		size = 65536
	}
	if !isPageSize(uint32(size)) {
		return 0, false
	}
	return size, true
}

// index is what the shared memory of a log says of checkpoints.
type index struct {
	backfilled uint32 // frames whose pages are in the database file, synced
	attempted  uint32 // frames whose pages may be in it
}

// readIndex reads the shared memory file; ok says that it is whole and was
// written for the log with this salt.
func readIndex(path string, salt [8]byte) (i index, ok bool) {
	bytes, err := os.ReadFile(path) // 32 KiB for each 16 MiB of the log
	if err != nil || len(bytes) < 136 {
		return i, false
	}
	header, isInit := bytes[:48], bytes[12]
	if isInit != 1 || string(header) != string(bytes[48:96]) || [8]byte(header[32:40]) != salt {
		return i, false
	}
	return index{
		backfilled: binary.NativeEndian.Uint32(bytes[96:]),
		attempted:  binary.NativeEndian.Uint32(bytes[128:]),
	}, true
}
