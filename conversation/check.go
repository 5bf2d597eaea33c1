package conversation

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// CheckUnclean has SQLite check all pages of the database if the process that had
// it open last died. What is found is among the Damages. A million messages take a
// few seconds; others read and write meanwhile. The error is that of ctx, or why
// the database could not be checked.
func (s *Store) CheckUnclean(ctx context.Context) error {
	if !s.unclean {
		return nil
	}
	began := time.Now()
	db := sql.OpenDB(connector{s.files, s.damages, dsn(s.path, "_query_only", "1", "_cache_size", readerCache)})
	var problem string
	err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&problem)
	err = errors.Join(err, db.Close())
	switch {
	case IsDamaged(err): // which the connection has noted
		return nil
	case err != nil:
		return explain(err)
	case problem != "ok":
		s.damages.met("the file", errors.New(problem))
		return nil
	}
	s.log.Info("database checked after an unclean end, nothing found", "took", time.Since(began).Round(time.Millisecond))
	return nil
}
