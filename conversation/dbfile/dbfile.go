// Package dbfile opens databases past the store: for tests and measurements, which
// look into one, or write rows as only an earlier version or a fault would.
package dbfile

import (
	"database/sql"

	"parley/conversation/internal/postgres"
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

// OpenURL opens a database on a PostgreSQL server, without becoming one of its nodes.
func OpenURL(url string) (*sql.DB, error) {
	config, err := postgres.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(postgres.NewConnector(config)), nil
}
