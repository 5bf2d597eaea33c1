package sqlitefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// Pages reads single pages of a database file with its log, even if other pages are damaged.
type Pages struct {
	Size  int    // the size of a page in bytes
	Count uint32 // the number of pages

	file  *os.File
	log   *os.File         // nil = there is no log
	inLog map[uint32]int64 // the offset of the newest version of each page in the log
	salt  [8]byte          // see WAL.Salt
}

// usualPageSize is SQLite's default. It is assumed for a file whose header is damaged.
const usualPageSize = 4096

// OpenPages opens a database file, and its log if withLog is set.
func OpenPages(path string, withLog bool) (p *Pages, err error) {
	p = &Pages{}
	if p.file, err = os.Open(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	info, err := p.file.Stat()
	if err != nil {
		return nil, err
	}
	header := make([]byte, databaseHeader)
	if _, err := p.file.ReadAt(header, 0); err == nil {
		p.Size, _ = pageSize(header)
	}
	if withLog {
		if err := p.openLog(path + "-wal"); err != nil {
			return nil, err
		}
	}
	if p.Size == 0 {
		p.Size = usualPageSize
	}
	p.Count = max(p.Count, uint32(info.Size()/int64(p.Size)))
	return p, nil
}

func (p *Pages) openLog(path string) error {
	wal, err := ReadWAL(path)
	if wal == nil || err != nil || p.Size != 0 && p.Size != wal.PageSize {
		return err
	}
	if p.log, err = os.Open(path); err != nil {
		return err
	}
	p.Size, p.Count, p.salt = wal.PageSize, wal.Pages, wal.Salt
	p.inLog = make(map[uint32]int64, len(wal.Frames))
	for _, f := range wal.Frames {
		p.inLog[f.Page] = f.Offset
	}
	return nil
}

// Close closes the files.
func (p *Pages) Close() (err error) {
	for _, file := range []*os.File{p.file, p.log} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// Valid reports whether all pages read so far are from the same moment, although another
// process may write to the database: the log was not restarted. The caller must have had a
// reading transaction open all the time.
func (p *Pages) Valid() bool {
	if p.log == nil {
		return true
	}
	salt := make([]byte, 8)
	_, err := p.log.ReadAt(salt, 16)
	return err == nil && [8]byte(salt) == p.salt
}

// page reads a page. Pages are numbered from 1.
func (p *Pages) page(n uint32) ([]byte, error) {
	if n == 0 || n > p.Count {
		return nil, fmt.Errorf("there is no page %d", n)
	}
	bytes := make([]byte, p.Size)
	file, offset := p.file, int64(n-1)*int64(p.Size)
	if at, ok := p.inLog[n]; ok {
		file, offset = p.log, at
	}
	if _, err := file.ReadAt(bytes, offset); err != nil {
		return nil, fmt.Errorf("page %d: %w", n, err)
	}
	return bytes, nil
}

// free returns the unused pages, as far as the list of them can be read.
func (p *Pages) free() map[uint32]bool {
	free := map[uint32]bool{}
	first, err := p.page(1)
	if err != nil {
		return free
	}
	for trunk := binary.BigEndian.Uint32(first[32:]); trunk != 0 && !free[trunk]; {
		bytes, err := p.page(trunk)
		if err != nil {
			return free
		}
		free[trunk] = true
		trunk = binary.BigEndian.Uint32(bytes)
		leaves := bytes[8:]
		for range min(int(binary.BigEndian.Uint32(bytes[4:])), len(leaves)/4) {
			free[binary.BigEndian.Uint32(leaves)] = true
			leaves = leaves[4:]
		}
	}
	return free
}
