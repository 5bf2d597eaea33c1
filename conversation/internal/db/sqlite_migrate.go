package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pressly/goose/v3"
)

const sqliteMigrations = "migrations/sqlite"

// migrate brings the schema up to date, and refuses a schema that is newer than this binary.
// The caller closes the connection that migrate returns.
func migrate(ctx context.Context, log *slog.Logger, path string) (*sql.DB, error) {
	// In WAL mode, NORMAL can't damage the file. It leaves the sync to the next
	// write.
	db, err := sql.Open("sqlite3", dsn(path, "_synchronous", "NORMAL"))
	if err != nil {
		return nil, err
	}
	if err := migrateUp(ctx, log, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// SchemaVersions returns the versions of SQLite's schema that this gateway knows, the newest
// last.
func SchemaVersions() ([]int64, error) {
	versions, _, err := schemaVersions(sqliteMigrations)
	return versions, err
}

// MakeSchema makes an empty database with the schema of a version. The file at path
// must be empty, or not exist.
func MakeSchema(ctx context.Context, path string, version int64) (err error) {
	db, err := sql.Open("sqlite3", dsn(path, "mode", "rwc", "_journal_mode", "MEMORY", "_synchronous", "OFF"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := migrationsIn(sqliteMigrations, goose.DialectSQLite3, db, nil)
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return Explain(err)
}

// migrateUp applies the migrations that are missing.
func migrateUp(ctx context.Context, log *slog.Logger, db *sql.DB) error {
	provider, err := migrationsIn(sqliteMigrations, goose.DialectSQLite3, db, nil)
	if err != nil {
		return err
	}
	current, newest, err := pending(ctx, provider)
	if err != nil || current == newest {
		return err
	}
	if current >= epochMigration {
		if _, err := db.ExecContext(ctx, renewEpoch); err != nil {
			return err
		}
	}
	return up(ctx, log, provider, current, newest)
}

// pending returns the version of the schema, 0 for an empty database, and the newest version. It fails if
// the schema is newer than this binary.
func pending(ctx context.Context, provider *goose.Provider) (current, newest int64, err error) {
	current, newest, err = provider.GetVersions(ctx)
	if err == nil && current > newest {
		err = fmt.Errorf("its schema has version %d, and this gateway knows only up to %d: use a newer gateway", current, newest)
	}
	return current, newest, err
}
