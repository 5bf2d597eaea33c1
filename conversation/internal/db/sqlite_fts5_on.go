//go:build sqlite_fts5 || fts5

package db

// fts5 says whether SQLite was compiled with full-text search: the driver
// leaves it out unless the build asks for it by tag.
const fts5 = true
