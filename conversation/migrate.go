package conversation

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, one process at a time, and refuses a
// schema that is newer than this binary.
func (s *Store) migrate(ctx context.Context) error {
	unlock, err := s.locks.wait(migrationLock)
	if err != nil {
		return err
	}
	defer unlock()

	db, err := sql.Open("sqlite3", dsn(s.path))
	if err != nil {
		return err
	}
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return err
	}
	current, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > newest {
		return fmt.Errorf("its schema has version %d, and this gateway knows only up to %d: use a newer gateway", current, newest)
	}
	if current == newest {
		return nil
	}
	_, err = provider.Up(ctx)
	return err
}
