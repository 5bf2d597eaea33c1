// Package dbfile opens database files past the store: for tests and measurements, which
// look into a file, or write rows as only an earlier version or a fault would.
package dbfile

import (
	"database/sql"

	"parley/conversation/internal/sqlite"
)

// Open opens the database at path to read and write it, also while a gateway has it open.
// It is created if there is none.
func Open(path string) (*sql.DB, error) {
	return sqlite.Open(path, sqlite.Options{})
}

// OpenReadOnly opens the database at path, and writes neither the file nor its log.
func OpenReadOnly(path string) (*sql.DB, error) {
	return sqlite.Open(path, sqlite.Options{ReadOnly: true})
}

// OpenMemory opens an empty database in memory. It has one connection.
func OpenMemory() (*sql.DB, error) { return sqlite.OpenMemory() }
