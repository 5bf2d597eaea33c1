package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"parley/conversation/internal/postgres"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

const (
	postgresMigrations = "migrations/postgres"

	// compatibilityMigration is the version that adds the table compatibility, which says which gateways work with the schema.
	compatibilityMigration = 62
)

// migratePostgres brings the schema up to date, one process at a time. It does not change a schema that is newer than this
// gateway, and returns an error if that schema needs a newer gateway.
func migratePostgres(ctx context.Context, log *slog.Logger, to *postgres.Config) error {
	db := postgres.OpenPlain(to)
	defer db.Close()
	locker, err := lock.NewPostgresTableLocker(lock.WithTableLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	provider, err := migrationsIn(postgresMigrations, goose.DialectPostgres, db, refuseOlderNodes, goose.WithLocker(locker))
	if err != nil {
		return err
	}
	current, newest, err := provider.GetVersions(ctx)
	switch {
	case err != nil || current == newest:
		return err
	case current > newest:
		return checkCompatible(ctx, log, db, current, newest)
	}
	if err := up(ctx, log, provider, current, newest); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return nil
}

// checkCompatible returns an error if the schema, of the version current, needs a gateway that knows a later version than
// known.
func checkCompatible(ctx context.Context, log *slog.Logger, db *sql.DB, current, known int64) error {
	var oldest int64
	if err := db.QueryRowContext(ctx, `SELECT oldest FROM compatibility`).Scan(&oldest); err != nil {
		return err
	}
	if oldest > known {
		return fmt.Errorf("its schema has version %d, which needs a gateway that knows version %d, and this one knows only up to %d: use a newer gateway", current, oldest, known)
	}
	log.Info("a newer gateway has changed the schema of the database; this one works with it, too", "schema", current, "known", known)
	return nil
}

// refuseOlderNodes returns an error if a running gateway can't work with the schema after the migration in tx, which may have
// raised compatibility.oldest. Nodes that join meanwhile wait for the end of tx, and then check the schema themselves.
func refuseOlderNodes(ctx context.Context, tx *sql.Tx, version int64) error {
	if version <= compatibilityMigration {
		return nil
	}
	const older = `dead_at IS NULL AND schema < (SELECT oldest FROM compatibility)`
	const now = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
	var name, command, of string
	err := tx.QueryRowContext(ctx, `SELECT name, command, version FROM nodes WHERE `+older+` AND expires_at > `+now+` ORDER BY id LIMIT 1`).Scan(&name, &command, &of)
	if err == nil {
		return fmt.Errorf("version %d of the schema is not for `gateway %s` on %s, which is %s: stop all gateways of older versions first. If it was killed, wait 10 seconds",
			version, command, name, of)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	// An older node that has died, or has lost its connection, must not write to the new schema.
	if _, err := tx.ExecContext(ctx, `DELETE FROM lanes WHERE node_id IN (SELECT id FROM nodes WHERE `+older+`)`); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE nodes SET dead_at = `+now+` WHERE `+older)
	return err
}
