package db

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

func (f *sqliteFile) wasUnclean() bool { return f.unclean }

func (f *sqliteFile) damaged() []string { return f.damages.list() }

func (f *sqliteFile) noteDamage(part string, err error) { f.damages.met(part, err) }

func (f *sqliteFile) moved() error {
	if err := f.writer.placement.missing.Load(); err != nil {
		return *err
	}
	return nil
}

// fullFor is how long the disk counts as full after a write that found no room.
const fullFor = 10 * time.Second

func (f *sqliteFile) hasStoredSince(t time.Time) bool { return f.writer.group.hasStoredSince(t) }

func (f *sqliteFile) lacksRoom() error {
	if full := f.writer.full.Load(); full != nil && time.Since(full.at) < fullFor {
		return full.err
	}
	return nil
}

func (f *sqliteFile) checkUnclean(ctx context.Context) error {
	if !f.unclean {
		return nil
	}
	began := time.Now()
	db := sql.OpenDB(connector{f.files, f.damages, dsn(f.path, "_query_only", "1", "_cache_size", readerCache)})
	var problem string
	err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&problem)
	err = errors.Join(err, db.Close())
	switch {
	case IsDamaged(err): // the connection has recorded the damage
		return nil
	case err != nil:
		return Explain(err)
	case problem != "ok":
		f.damages.met("the file", errors.New(problem))
		return nil
	}
	f.log.Info("database checked after an unclean end, nothing found", "took", time.Since(began).Round(time.Millisecond))
	return nil
}
