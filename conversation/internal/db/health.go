package db

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Unclean reports whether the process that had the database open last died
// instead of closing it.
func (d *DB) Unclean() bool { return d.unclean }

// Damages returns the parts of the database that were found to be damaged since
// it was opened, in words for the operator.
func (d *DB) Damages() []string { return d.damages.list() }

// NoteDamage adds a part that can't be read to the Damages, and logs it once.
func (d *DB) NoteDamage(part string, err error) { d.damages.met(part, err) }

// Moved returns why nothing is stored while the database is away from its place,
// else nil. The error wraps ErrMoved.
func (d *DB) Moved() error {
	if err := d.writer.placement.missing.Load(); err != nil {
		return *err
	}
	return nil
}

// CheckUnclean has SQLite check all pages of the database if the process that had
// it open last died. What is found is among the Damages. A million messages take a
// few seconds; others read and write meanwhile. The error is that of ctx, or why
// the database could not be checked.
func (d *DB) CheckUnclean(ctx context.Context) error {
	if !d.unclean {
		return nil
	}
	began := time.Now()
	db := sql.OpenDB(connector{d.files, d.damages, dsn(d.path, "_query_only", "1", "_cache_size", readerCache)})
	var problem string
	err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&problem)
	err = errors.Join(err, db.Close())
	switch {
	case IsDamaged(err): // which the connection has noted
		return nil
	case err != nil:
		return Explain(err)
	case problem != "ok":
		d.damages.met("the file", errors.New(problem))
		return nil
	}
	d.log.Info("database checked after an unclean end, nothing found", "took", time.Since(began).Round(time.Millisecond))
	return nil
}
