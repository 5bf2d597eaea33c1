package postgrestest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Connect connects to a database as another program would. The connection is closed when the test ends.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// Exec executes statements on a database as another program would.
func Exec(t testing.TB, url, statements string) {
	t.Helper()
	conn := Connect(t, url)
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}
