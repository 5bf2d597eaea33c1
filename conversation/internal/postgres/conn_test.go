package postgres_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"parley/conversation/internal/postgres"
	"parley/internal/postgrestest"
)

func open(t *testing.T, url string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(postgres.NewConnector(config))
	t.Cleanup(func() { db.Close() })
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Text that the server can't hold is stored and looked for with U+FFFD in it, so that an id or a word of a
// request with such bytes finds nothing, as in SQLite, and the request does not fail.
func TestTextIsMadeValid(t *testing.T) {
	t.Parallel()
	db := open(t, postgrestest.Database(t))
	for _, text := range []string{"a\x00b", "a\xffb"} {
		var got string
		if err := db.QueryRowContext(t.Context(), `SELECT CAST(? AS text)`, text).Scan(&got); err != nil || got != "a\uFFFDb" {
			t.Errorf("%q becomes %q, %v", text, got, err)
		}
	}
}

// Values come back as they were stored, and as SQLite returns them: flags are integers.
func TestValuesAreKept(t *testing.T) {
	t.Parallel()
	db := open(t, postgrestest.Database(t))
	_, err := db.ExecContext(t.Context(), `CREATE TABLE kept (id bigint, flag bigint, words text, raw bytea, share double precision); CREATE INDEX kept_id ON kept (id)`)
	must(t, err)
	_, err = db.ExecContext(t.Context(), `INSERT INTO kept VALUES (?, ?, :words, ?4, ?5)`, int64(1)<<60, true, sql.Named("words", "it's ? \u00e9 \\"), []byte{0, 1, 255}, 0.1)
	must(t, err)
	result, err := db.ExecContext(t.Context(), `INSERT INTO kept VALUES (?, ?, ?, ?, ?)`, 2, false, []byte(`{"a":1}`), []byte{}, nil)
	must(t, err)
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Errorf("%d rows affected, %v, want 1", n, err)
	}

	var id, flag, sum int64
	var words, text string
	var raw []byte
	var share sql.NullFloat64
	var larger bool
	must(t, db.QueryRowContext(t.Context(), `SELECT id, flag, words, raw, share, id > 5, (SELECT sum(id) FROM kept) - 2 FROM kept WHERE flag = ?`, true).
		Scan(&id, &flag, &words, &raw, &share, &larger, &sum))
	if id != 1<<60 || flag != 1 || words != "it's ? \u00e9 \\" || string(raw) != "\x00\x01\xff" || share.Float64 != 0.1 || !larger || sum != id {
		t.Errorf("read back %d %d %q %v %v %v %d", id, flag, words, raw, share, larger, sum)
	}
	must(t, db.QueryRowContext(t.Context(), `SELECT words, raw, share, id > 5 FROM kept WHERE flag = ?`, false).Scan(&text, &raw, &share, &id))
	if text != `{"a":1}` || raw == nil || len(raw) != 0 || share.Valid || id != 0 {
		t.Errorf("read back %q %v %v %d", text, raw, share, id)
	}
}

// A statement may be executed while the rows of another are read, as SQLite allows it.
func TestStatementBetweenRows(t *testing.T) {
	t.Parallel()
	db := open(t, postgrestest.Database(t))
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback()
	found, err := tx.QueryContext(t.Context(), `SELECT n FROM generate_series(1, 1000) n`)
	must(t, err)
	defer found.Close()
	sum, double := 0, 0
	for found.Next() {
		var n, twice int
		must(t, found.Scan(&n))
		must(t, tx.QueryRowContext(t.Context(), `SELECT CAST(? AS bigint) * 2`, n).Scan(&twice))
		sum, double = sum+n, double+twice
	}
	must(t, found.Err())
	if sum != 500500 || double != 2*sum {
		t.Errorf("read %d and %d, want 500500 and its double", sum, double)
	}
}

// A transaction whose statement failed stores nothing, and says so; the connection serves the next one.
func TestFailedTransactionStoresNothing(t *testing.T) {
	t.Parallel()
	db := open(t, postgrestest.Database(t))
	db.SetMaxOpenConns(1)
	_, err := db.ExecContext(t.Context(), `CREATE TABLE kept (id bigint PRIMARY KEY)`)
	must(t, err)
	tx, err := db.BeginTx(context.Background(), nil)
	must(t, err)
	_, err = tx.ExecContext(t.Context(), `INSERT INTO kept VALUES (?)`, 1)
	must(t, err)
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO kept VALUES (?)`, 1); err == nil {
		t.Error("the same key was stored twice")
	}
	if err := tx.Commit(); err == nil {
		t.Error("a transaction with a failed statement was committed")
	}
	var n int
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM kept`).Scan(&n))
	if n != 0 {
		t.Errorf("%d rows stored, want 0", n)
	}
}

// Connections that died with a server that restarts are not used again.
func TestPoolReconnectsAfterARestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a server of its own")
	}
	server := postgrestest.Start(t, postgrestest.Options{})
	db := open(t, server.Database(t))
	var n int
	must(t, db.QueryRowContext(t.Context(), `SELECT 1`).Scan(&n))
	server.Stop(t, "immediate")
	if err := db.QueryRowContext(t.Context(), `SELECT 2`).Scan(&n); !postgres.IsLost(err) {
		t.Errorf("a stopped server gives %v, want an error that says so", err)
	}
	server.Start(t)
	must(t, db.QueryRowContext(t.Context(), `SELECT 3`).Scan(&n))
}
