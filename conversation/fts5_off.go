//go:build !sqlite_fts5 && !fts5

package conversation

const fts5 = false
