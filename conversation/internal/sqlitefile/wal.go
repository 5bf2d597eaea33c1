// Package sqlitefile reads the files of SQLite without SQLite: the write-ahead log and its
// index after a crash, and the pages of a damaged database. The formats are those of
// https://www.sqlite.org/fileformat2.html and https://www.sqlite.org/walformat.html.
package sqlitefile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// WAL is the committed content of a write-ahead log, which SQLite replays into the database
// file when it opens the two.
type WAL struct {
	PageSize int
	Salt     [8]byte // identifies this generation of the log; it changes whenever SQLite restarts the log
	Frames   []Frame // in order
	Pages    uint32  // the number of pages of the database after the last commit

	epochs []epochFrame // the epochs in the frames, in order
}

// Frame is one page in the log.
type Frame struct {
	Page   uint32
	Offset int64 // the offset of the page's bytes in the log
}

const (
	walHeader   = 32
	frameHeader = 24
	walMagic    = 0x377f0682 // the last bit says whether checksums are big-endian
	walVersion  = 3007000
)

// ReadWAL reads the log at path. It returns nil for a log without a commit, which SQLite
// ignores, and for one that does not exist.
func ReadWAL(path string) (*WAL, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	wal, err := readWAL(bufio.NewReaderSize(file, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return wal, nil
}

func readWAL(in io.Reader) (*WAL, error) {
	header := make([]byte, walHeader)
	if ended, err := readFull(in, header); ended || err != nil {
		return nil, err
	}
	magic := binary.BigEndian.Uint32(header)
	sum := checksum{order: binary.LittleEndian}
	if magic&1 == 1 {
		sum.order = binary.BigEndian
	}
	sum.add(header[:24])
	size := binary.BigEndian.Uint32(header[8:])
	if magic&^1 != walMagic || binary.BigEndian.Uint32(header[4:]) != walVersion || !isPageSize(size) || !sum.is(header[24:]) {
		return nil, nil
	}
	wal := &WAL{PageSize: int(size), Salt: [8]byte(header[16:24])}
	if err := wal.readFrames(in, sum); err != nil || len(wal.Frames) == 0 {
		return nil, err
	}
	return wal, nil
}

// readFrames reads frames up to the first invalid one, and keeps those up to the last
// commit.
func (w *WAL) readFrames(in io.Reader, sum checksum) error {
	var epochs []epochFrame
	frames, offset := []Frame(nil), int64(walHeader)
	frame := make([]byte, frameHeader+w.PageSize)
	for {
		if ended, err := readFull(in, frame); ended || err != nil {
			return err
		}
		page := binary.BigEndian.Uint32(frame)
		sum.add(frame[:8])
		sum.add(frame[frameHeader:])
		if page == 0 || [8]byte(frame[8:16]) != w.Salt || !sum.is(frame[16:]) {
			return nil
		}
		frames = append(frames, Frame{Page: page, Offset: offset + frameHeader})
		if e, ok := parseEpoch(frame[frameHeader:]); ok {
			epochs = append(epochs, epochFrame{epoch: e, page: page, frame: uint32(len(frames))})
		}
		if pages := binary.BigEndian.Uint32(frame[4:]); pages != 0 {
			w.Frames, w.Pages, w.epochs = frames, pages, epochs
		}
		offset += int64(len(frame))
	}
}

// readFull fills b, or reports that the file ended before.
func readFull(in io.Reader, b []byte) (ended bool, err error) {
	_, err = io.ReadFull(in, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true, nil
	}
	return false, err
}

func isPageSize(n uint32) bool { return n >= 512 && n <= 65536 && n&(n-1) == 0 }

// checksum is the running checksum of a log.
type checksum struct {
	order  binary.ByteOrder
	s0, s1 uint32
}

// add adds bytes to the checksum. Their number is a multiple of 8.
func (c *checksum) add(b []byte) {
	s0, s1 := c.s0, c.s1
	if c.order == binary.ByteOrder(binary.LittleEndian) {
		for ; len(b) >= 8; b = b[8:] {
			s0 += binary.LittleEndian.Uint32(b) + s1
			s1 += binary.LittleEndian.Uint32(b[4:]) + s0
		}
	} else {
		for ; len(b) >= 8; b = b[8:] {
			s0 += binary.BigEndian.Uint32(b) + s1
			s1 += binary.BigEndian.Uint32(b[4:]) + s0
		}
	}
	c.s0, c.s1 = s0, s1
}

// is reports whether the checksum equals the one that is stored in b.
func (c *checksum) is(b []byte) bool {
	return binary.BigEndian.Uint32(b) == c.s0 && binary.BigEndian.Uint32(b[4:]) == c.s1
}
