package db

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"parley/internal/postgrestest"
)

// Several gateways start at once on an empty database: each waits until one of them has made the schema.
func TestServersMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			d, err := Open(context.Background(), Config{Path: url, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Error(err)
				return
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
}

// A newer gateway has changed the schema. An older one goes on, and starts, as long as the schema does not need a
// newer one.
func TestOlderGatewayOnNewerSchema(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	running := openServer(t, url, patience{})
	postgrestest.Exec(t, url, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9001, true)`)
	postgrestest.Exec(t, url, `ALTER TABLE written ADD COLUMN later bigint`)
	openServer(t, url, patience{})
	if err := writeNumber(running, "api:x", 5); err != nil || times(t, url, 5) != 1 {
		t.Error("the running gateway can't write any more:", err)
	}
	postgrestest.Exec(t, url, `UPDATE compatibility SET oldest = 9001`)
	_, err := Open(t.Context(), Config{Path: url, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "version 9001, which needs a gateway that knows version 9001") || !strings.Contains(err.Error(), "use a newer gateway") {
		t.Error(err)
	}
}

// A migration that older gateways can't work with is not applied while one of them runs. One that was killed is
// kept from writing to the new schema.
func TestBreakingMigrationWaitsForOlderGateways(t *testing.T) {
	t.Parallel()
	url := emptyDatabase.Database(t)
	older := openServer(t, url, patience{})
	server, err := OpenServer(t.Context(), Config{Path: url, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	migrate := func(statements ...string) error {
		tx, err := server.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		for _, statement := range append(statements, `UPDATE compatibility SET oldest = 9001`) {
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				return err
			}
		}
		if err := refuseOlderNodes(t.Context(), tx, 9001); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := migrate(); err == nil || !strings.Contains(err.Error(), "stop all gateways of older versions first") {
		t.Error(err)
	}
	if err := writeNumber(older, "api:x", 1); err != nil {
		t.Fatal(err)
	}
	// As if it were killed, and its row had expired.
	if err := migrate(`UPDATE nodes SET expires_at = 1`); err != nil {
		t.Fatal(err)
	}
	if err := writeNumber(older, "api:x", 2); err == nil || times(t, url, 2) != 0 {
		t.Error("a gateway that is too old has written:", err)
	}
}
