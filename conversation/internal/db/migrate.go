package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, and refuses a schema that is newer than
// this binary. The connection that it used is the caller's to close.
func migrate(ctx context.Context, path string) (*sql.DB, error) {
	// In WAL mode NORMAL keeps the file whole and only leaves the sync to the
	// first write that follows.
	db, err := sql.Open("sqlite3", dsn(path, "_synchronous", "NORMAL"))
	if err != nil {
		return nil, err
	}
	if err := migrateUp(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// SchemaVersions returns the versions of the schema that this gateway knows, the newest
// last.
func SchemaVersions() (list []int64, err error) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		version, err := goose.NumericComponent(file.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, version)
	}
	return list, nil
}

// MakeSchema makes an empty database with the schema of a version in the file at
// path, which is empty or not there.
func MakeSchema(ctx context.Context, path string, version int64) (err error) {
	db, err := sql.Open("sqlite3", dsn(path, "mode", "rwc", "_journal_mode", "MEMORY", "_synchronous", "OFF"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := migrationsOf(db)
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return Explain(err)
}

// migrationsOf returns what applies the migrations to a database.
func migrationsOf(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, files)
}

func migrateUp(ctx context.Context, db *sql.DB) error {
	provider, err := migrationsOf(db)
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
	if current >= epochMigration {
		if _, err := db.ExecContext(ctx, renewEpoch); err != nil {
			return err
		}
	}
	_, err = provider.Up(ctx)
	return err
}
