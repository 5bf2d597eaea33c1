package sqlitefile

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Verdict says whether a write-ahead log belongs to the database file beside it.
type Verdict int

const (
	// NoLog: the log is empty or missing, as after an orderly shutdown.
	NoLog Verdict = iota
	// Belongs: the log was written for this file.
	Belongs
	// Unknown: the epochs do not decide it. The log may come from a version without
	// epochs, or from another program.
	Unknown
	// Foreign: the log was written for another file, and SQLite would replay it
	// into this one.
	Foreign
)

// FileEpoch is the epoch in a database file, without its log.
type FileEpoch struct {
	Readable bool // false if the file can't be read without its log, as in the middle of a checkpoint
	Name     string
	Page     uint32 // root page of the table wal_epoch; 0 if there is no such table
}

// CheckWAL reports whether the log beside a database belongs to it. It writes nothing. No
// process may have the database open. It calls epoch only if it needs the file's epoch.
//
// sameBoot says that the machine was not rebooted since a process last had the database
// open. Then the index of the log is still valid, and shows even that the file was replaced
// by a copy which was made shortly before.
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
	case size == 0: // the header is damaged, but the log may hold the first page
		return Unknown, nil
	case size != wal.PageSize:
		return Foreign, nil
	}
	current := epoch()
	if !current.Readable || len(wal.epochs) == 0 {
		return Unknown, nil
	}
	return wal.continues(current, database, sameBoot), nil
}

// continues compares the current epoch of the database file with the epochs in the log.
func (w *WAL) continues(current FileEpoch, database string, sameBoot bool) Verdict {
	first := w.epochs[0]
	if current.Page == 0 {
		if first.previous == noEpoch { // the table was created in this log
			return Unknown
		}
		return Foreign
	}
	in := slices.IndexFunc(w.epochs, func(e epochFrame) bool { return e.name == current.Name })
	if first.page != current.Page || in < 0 && current.Name != first.previous {
		return Foreign
	}
	index, ok := readIndex(database+"-shm", w.Salt)
	if !ok || !sameBoot {
		return Belongs
	}
	last := w.epochs[len(w.epochs)-1]
	switch {
	case in >= 0 && w.epochs[in].frame > index.attempted: // no checkpoint has written this epoch to the file
		return Foreign
	case last.frame <= index.backfilled && current.Name != last.name: // a checkpoint has written the newest epoch, and the file has another one
		return Foreign
	}
	return Belongs
}

var errEmpty = errors.New("empty file")

// pageSizeOf returns the page size of a database file, or 0 if its header is damaged.
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

// pageSize returns the page size from the header of a database file. ok is false if it is
// not a valid header.
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

// index is the state of checkpoints from the shared memory file of a log.
type index struct {
	backfilled uint32 // how many frames of the log are in the database file, synced
	attempted  uint32 // how many frames of the log may be in it
}

// readIndex reads the shared memory file. ok is false if the file is incomplete, or was
// written for a log with another salt.
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
