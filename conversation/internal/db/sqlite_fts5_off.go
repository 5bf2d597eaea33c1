//go:build !sqlite_fts5 && !fts5

package db

const fts5 = false
