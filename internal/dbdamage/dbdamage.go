// Package dbdamage damages databases for tests: it finds the pages of a table or
// an index and overwrites them. No process may have the database open.
// The format is that of https://www.sqlite.org/fileformat2.html.
package dbdamage

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"parley/conversation/dbfile"
)

// Page is one page of a database.
type Page struct {
	Number int
	Data   []byte
}

// Has reports whether the page holds a text.
func (p Page) Has(text string) bool { return bytes.Contains(p.Data, []byte(text)) }

const (
	fileHeader    = 100 // bytes on the first page before what all pages have
	interiorIndex = 2
	interiorTable = 5
)

// Leaves returns the leaves of the table or the index with a name, in order.
func Leaves(t testing.TB, path, name string) []Page {
	t.Helper()
	db, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var root, size int
	var busy, frames, written int
	err = db.QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &written)
	if err == nil {
		err = db.QueryRow(`SELECT rootpage FROM sqlite_schema WHERE name = ?`, name).Scan(&root)
	}
	if err == nil {
		err = db.QueryRow(`PRAGMA page_size`).Scan(&size)
	}
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err != nil {
		t.Fatalf("the pages of %s: %v", name, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return leavesOf(data, root, size)
}

func leavesOf(file []byte, number, size int) (leaves []Page) {
	page := Page{Number: number, Data: file[(number-1)*size : number*size]}
	header := page.Data
	if number == 1 {
		header = header[fileHeader:]
	}
	if kind := header[0]; kind != interiorIndex && kind != interiorTable {
		return []Page{page}
	}
	cells := int(binary.BigEndian.Uint16(header[3:]))
	for n := range cells {
		cell := binary.BigEndian.Uint16(header[12+2*n:])
		leaves = append(leaves, leavesOf(file, int(binary.BigEndian.Uint32(page.Data[cell:])), size)...)
	}
	return append(leaves, leavesOf(file, int(binary.BigEndian.Uint32(header[8:])), size)...)
}

// Destroy overwrites a page.
func Destroy(t testing.TB, path string, page Page) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(bytes.Repeat([]byte{0x55}, len(page.Data)), int64(page.Number-1)*int64(len(page.Data)))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		t.Fatal(err)
	}
}
