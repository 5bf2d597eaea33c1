// Package maintenance looks after database files: it copies one while a gateway
// uses it, puts a copy in its place, says what is damaged, and saves what can be
// read. It is for commands, each of which works on files for a while and ends.
package maintenance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
)

// Step is a stage of a command, for reporting its progress.
type Step string

const (
	Copying   Step = "Copying"
	Embedding Step = "Copying files"
	Hashing   Step = "Checking files"
	Checking  Step = "Checking"
	Reading   Step = "Reading"
	Indexing  Step = "Indexing"
	Comparing Step = "Comparing"
)

// Progress is told how far a step has come, often. total is 0 where it is not
// known: then it is called once, when the step begins. It must not block.
type Progress func(step Step, done, total int64)

// Report calls p, unless it is nil.
func (p Progress) Report(step Step, done, total int64) {
	if p != nil {
		p(step, done, total)
	}
}

// Contents counts what a database holds.
type Contents struct {
	Schema        int64 // version of the schema
	Sessions      int64
	Conversations int64
	Messages      int64
	Files         int64 // files that are stored with their bytes
	LostFiles     int64 // files whose bytes a copy lacks, since they were missing or damaged in the folder beside the database
	Bytes         int64 // size of the database file
}

// openToRead opens a database, with its log, in a way that never writes to either. A
// copy without a log may lie where nothing can be written.
func openToRead(path string) (*sql.DB, error) {
	return sqlite.Open(path, sqlite.Options{ReadOnly: true})
}

// identify reads what a database holds, and refuses one that is not Parley's,
// or newer than this gateway.
func identify(ctx context.Context, q db.Querier, path string) (c Contents, err error) {
	err = q.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema
		WHERE type = 'table' AND name IN ('goose_db_version', 'sessions', 'conversations', 'messages', 'inbox', 'outbox')`).Scan(&c.Schema)
	switch {
	case db.FaultOf(err) == db.NotADatabase:
		return c, fmt.Errorf("%s is not a SQLite database (%w)", path, err)
	case err != nil:
		return c, explain(path, err)
	case c.Schema < 6:
		return c, fmt.Errorf("%s is not a database of this gateway: it has none of its tables, or not all of them", path)
	}
	var version sql.NullInt64
	err = q.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied = 1`).Scan(&version)
	if err == nil && !version.Valid {
		err = db.ErrDamaged
	}
	if err != nil {
		return c, explain(path, err)
	}
	c.Schema = version.Int64
	known, err := db.SchemaVersions()
	if newest := known[len(known)-1]; err == nil && c.Schema > newest {
		err = fmt.Errorf("the schema of %s has version %d, and this gateway knows only up to %d: use a newer gateway", path, c.Schema, newest)
	}
	return c, err
}

// measure counts what a database holds.
func measure(ctx context.Context, q db.Querier, path string, c *Contents) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	c.Bytes = info.Size()
	err = q.QueryRowContext(ctx, `SELECT count(*) FROM files WHERE blob_id IS NOT NULL`).Scan(&c.Files)
	if err != nil && !isOlder(err) {
		return explain(path, err)
	}
	count := func(condition string) error {
		return q.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM conversations `+condition+`), (SELECT count(*) FROM messages)`).
			Scan(&c.Sessions, &c.Conversations, &c.Messages)
	}
	if err = count(`WHERE deleted = 0`); isOlder(err) {
		err = count(``)
	}
	return explain(path, err)
}

// problems returns what SQLite finds wrong in a database, at most limit problems.
func problems(ctx context.Context, q db.Querier, limit int) (list []string, err error) {
	if list, err = firstColumn(ctx, q, `PRAGMA integrity_check(`+strconv.Itoa(limit)+`)`); err != nil {
		if !isDamage(err) {
			return nil, err
		}
		list = append(list, err.Error())
	}
	if len(list) == 1 && list[0] == "ok" {
		list = nil
	}
	for i, text := range list { // what it finds first has a heading
		list[i] = text[strings.LastIndex(text, "\n")+1:]
	}
	violations, err := firstColumn(ctx, q, `SELECT 'row ' || coalesce(rowid, '?') || ' of ' || "table" || ' refers to a row of ' || parent || ' that does not exist'
		FROM pragma_foreign_key_check LIMIT `+strconv.Itoa(limit))
	if err != nil && !isDamage(err) {
		return nil, err
	}
	return append(list, violations...), nil
}

// firstColumn reads a query of one column. What was read before an error is returned with
// it.
func firstColumn(ctx context.Context, q db.Querier, query string, args ...any) ([]string, error) {
	return db.Column[string](q.QueryContext(ctx, query, args...))
}

// checkFile returns an error unless there is a file at path, or will be one when an interrupted restore is finished.
func checkFile(path string) error {
	const advice = "name a database, or a copy that `gateway backup` has made"
	exists, err := Exists(path)
	switch info, _ := os.Stat(path); {
	case err == nil && !exists, errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("there is no file %s: %s", path, advice)
	case err != nil:
		return explain(path, err)
	case info != nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file: %s", path, advice)
	}
	return nil
}

// isDamage reports whether an error comes from what a file holds.
func isDamage(err error) bool {
	fault := db.FaultOf(err)
	return fault == db.Damaged || fault == db.NotADatabase
}

// explain adds to an error what the operator can do about it.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	advice := map[db.Fault]string{
		db.Full:         "the disk is full: make room",
		db.Unopenable:   "it can't be opened: let this user read it and write to its folder",
		db.Unwritable:   "it can't be written: let this user write the file and its folder",
		db.DiskFailed:   "the disk failed or is full",
		db.Busy:         "another process keeps it locked",
		db.Damaged:      "it is damaged: `gateway verify` says where",
		db.NotADatabase: "it is not a SQLite database",
	}[db.FaultOf(err)]
	if errors.Is(err, syscall.ENOSPC) {
		advice = "the disk is full: make room"
	}
	if advice == "" || strings.Contains(err.Error(), advice) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s: %s (%w)", path, advice, err)
}
