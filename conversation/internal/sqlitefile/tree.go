package sqlitefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Row is a row of a table.
type Row struct {
	ID     int64
	Values []any // nil, int64, float64, string or []byte; nil for a column that is an alias of the id
}

// Damage is a part of a table or an index that can't be read.
type Damage struct {
	Page  uint32
	Below bool // child pages may be readable: see Orphans
	Err   error

	// In a table, the damaged rows have ids greater than After, and at most UpTo.
	After, UpTo int64
}

// Walker reads tables and indexes page by page, and records which pages it has visited.
type Walker struct {
	*Pages
	seen []bool // by page number
}

// NewWalker returns a Walker that has visited no page.
func NewWalker(p *Pages) *Walker { return &Walker{Pages: p, seen: make([]bool, p.Count+1)} }

// Seen returns the number of visited pages.
func (w *Walker) Seen() (n int64) {
	for _, seen := range w.seen {
		if seen {
			n++
		}
	}
	return n
}

const (
	interiorIndex = 0x02
	interiorTable = 0x05
	leafIndex     = 0x0A

	maxDepth = 20 // SQLite's own limit
)

// Rows calls row for each readable row of the table with this root page, in the order of ids, and
// returns the parts that can't be read. It stops at the first error of row, and returns it.
func (w *Walker) Rows(root uint32, row func(Row) error) ([]Damage, error) {
	t := &tree{Walker: w, row: row}
	err := t.walk(root, math.MinInt64, math.MaxInt64, 0)
	return t.damage, err
}

// Entries is Rows for an index, or for a table WITHOUT ROWID.
func (w *Walker) Entries(root uint32, entry func(values []any) error) ([]Damage, error) {
	t := &tree{Walker: w, entry: entry}
	err := t.walk(root, math.MinInt64, math.MaxInt64, 0)
	return t.damage, err
}

// Orphans calls found for each page with rows of a table that was not visited and is not
// free, because its parent page is damaged. It passes the rows that can be read.
func (w *Walker) Orphans(found func(rows []Row) error) error {
	free := w.free()
	for n := uint32(1); n <= w.Count; n++ {
		if w.seen[n] || free[n] {
			continue
		}
		bytes, err := w.page(n)
		if err != nil || bytes[w.offset(n)] != leafTable {
			continue
		}
		var rows []Row
		t := &tree{Walker: w, row: func(r Row) error {
			rows = append(rows, r)
			return nil
		}}
		if err := t.leaf(n, bytes, math.MinInt64, math.MaxInt64); err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		if err := found(rows); err != nil {
			return err
		}
	}
	return nil
}

// offset returns the offset of the header in a page.
func (p *Pages) offset(n uint32) int {
	if n == 1 {
		return databaseHeader
	}
	return 0
}

// tree is one walk through a table, if row is set, or through an index, if entry is set.
type tree struct {
	*Walker
	row    func(Row) error
	entry  func([]any) error
	damage []Damage
}

// hit records a damaged part.
func (t *tree) hit(page uint32, below bool, after, upTo int64, err error) {
	t.damage = append(t.damage, Damage{Page: page, Below: below, After: after, UpTo: upTo, Err: err})
}

// walk visits a page and its child pages. Rows of a table must have ids greater than after, and at most upTo.
func (t *tree) walk(n uint32, after, upTo int64, depth int) error {
	bytes, err := t.page(n)
	if err == nil && (depth > maxDepth || t.seen[n]) {
		err = fmt.Errorf("page %d is used twice", n)
	}
	if err != nil {
		t.hit(n, true, after, upTo, err)
		return nil
	}
	t.seen[n] = true
	kind := bytes[t.offset(n)]
	switch {
	case t.row != nil && kind == leafTable:
		return t.leaf(n, bytes, after, upTo)
	case t.row != nil && kind == interiorTable:
		return t.interior(n, bytes, after, upTo, depth)
	case t.entry != nil && (kind == leafIndex || kind == interiorIndex):
		return t.index(n, bytes, kind == interiorIndex, depth)
	}
	t.hit(n, true, after, upTo, fmt.Errorf("page %d is of the type %d", n, kind))
	return nil
}

// cells returns the offsets of the cells in a page, or an error if the list of cells is invalid.
func (t *tree) cells(n uint32, bytes []byte, interior bool) ([]int, error) {
	header := t.offset(n)
	size := 8
	if interior {
		size = 12
	}
	count := int(binary.BigEndian.Uint16(bytes[header+3:]))
	list := header + size
	if list+2*count > len(bytes) {
		return nil, fmt.Errorf("page %d has a damaged header", n)
	}
	cells := make([]int, count)
	for i := range cells {
		cells[i] = int(binary.BigEndian.Uint16(bytes[list+2*i:]))
		if cells[i] < list+2*count || cells[i] > len(bytes)-4 {
			return nil, fmt.Errorf("page %d has a damaged header", n)
		}
	}
	return cells, nil
}

// interior visits the child pages of an interior page of a table.
func (t *tree) interior(n uint32, bytes []byte, after, upTo int64, depth int) error {
	cells, err := t.cells(n, bytes, true)
	if err != nil {
		t.hit(n, true, after, upTo, err)
		return nil
	}
	for _, at := range cells {
		key, length := varint(bytes[at+4:])
		if id := int64(key); length == 0 || id < after || id > upTo {
			t.hit(n, true, after, upTo, fmt.Errorf("page %d is out of order", n))
			return nil
		}
		if err := t.walk(binary.BigEndian.Uint32(bytes[at:]), after, int64(key), depth+1); err != nil {
			return err
		}
		after = int64(key)
	}
	return t.walk(binary.BigEndian.Uint32(bytes[t.offset(n)+8:]), after, upTo, depth+1)
}

// leaf calls row for the rows of a leaf page. It skips damaged rows.
func (t *tree) leaf(n uint32, bytes []byte, after, upTo int64) error {
	cells, err := t.cells(n, bytes, false)
	if err != nil {
		t.hit(n, false, after, upTo, err)
		return nil
	}
	broken := error(nil) // the error of the damaged rows after the last readable one
	for _, at := range cells {
		row, err := t.parseRow(bytes, at)
		if err == nil && (row.ID <= after && after != math.MinInt64 || row.ID > upTo) {
			err = fmt.Errorf("page %d is out of order", n)
		}
		if err != nil {
			broken = err
			continue
		}
		if broken != nil {
			t.hit(n, false, after, row.ID-1, broken)
			broken = nil
		}
		after = row.ID
		if err := t.row(row); err != nil {
			return err
		}
	}
	if broken != nil {
		t.hit(n, false, after, upTo, broken)
	}
	return nil
}

func (t *tree) parseRow(bytes []byte, at int) (r Row, err error) {
	size, n := varint(bytes[at:])
	if n == 0 {
		return r, errRecord
	}
	id, m := varint(bytes[at+n:])
	if m == 0 {
		return r, errRecord
	}
	payload, err := t.payload(bytes, at+n+m, size, len(bytes)-35)
	if err != nil {
		return r, err
	}
	r.ID = int64(id)
	r.Values, err = parseRecord(payload)
	return r, err
}

// index calls entry for the entries of an index page and of its child pages.
func (t *tree) index(n uint32, bytes []byte, interior bool, depth int) error {
	cells, err := t.cells(n, bytes, interior)
	if err != nil {
		t.hit(n, interior, 0, 0, err)
		return nil
	}
	for _, at := range cells {
		if interior {
			if err := t.walk(binary.BigEndian.Uint32(bytes[at:]), 0, 0, depth+1); err != nil {
				return err
			}
			at += 4
		}
		values, err := t.parseEntry(bytes, at)
		if err != nil {
			t.hit(n, false, 0, 0, err)
			continue
		}
		if err := t.entry(values); err != nil {
			return err
		}
	}
	if !interior {
		return nil
	}
	return t.walk(binary.BigEndian.Uint32(bytes[t.offset(n)+8:]), 0, 0, depth+1)
}

func (t *tree) parseEntry(bytes []byte, at int) ([]any, error) {
	size, n := varint(bytes[at:])
	if n == 0 {
		return nil, errRecord
	}
	payload, err := t.payload(bytes, at+n, size, (len(bytes)-12)*64/255-23)
	if err != nil {
		return nil, err
	}
	return parseRecord(payload)
}

var errOverflow = errors.New("the continuation of a row is damaged")

// payload reads the size bytes of a row or an entry. At most local of them are in the page, and
// the rest is in a chain of overflow pages.
func (t *tree) payload(bytes []byte, at int, size uint64, local int) ([]byte, error) {
	if size > uint64(t.Count)*uint64(t.Size) {
		return nil, errRecord
	}
	here := int(size)
	if here > local {
		least := (len(bytes)-12)*32/255 - 23
		if here = least + (int(size)-least)%(len(bytes)-4); here > local {
			here = least
		}
	}
	if at+here > len(bytes) {
		return nil, errRecord
	}
	payload := append(make([]byte, 0, size), bytes[at:at+here]...)
	if uint64(here) == size {
		return payload, nil
	}
	if at+here+4 > len(bytes) {
		return nil, errRecord
	}
	for next := binary.BigEndian.Uint32(bytes[at+here:]); ; {
		more, err := t.page(next)
		if err != nil || t.seen[next] {
			return nil, errors.Join(errOverflow, err)
		}
		t.seen[next] = true
		rest := min(len(more)-4, int(size)-len(payload))
		payload = append(payload, more[4:4+rest]...)
		next = binary.BigEndian.Uint32(more)
		if len(payload) == int(size) {
			if next != 0 {
				return nil, errOverflow
			}
			return payload, nil
		}
	}
}
