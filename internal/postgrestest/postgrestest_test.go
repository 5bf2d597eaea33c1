package postgrestest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// A test can crash its server and start it again: what was committed is still there.
func TestServerRestartsAfterCrash(t *testing.T) {
	t.Parallel()
	server := Start(t, Options{Fsync: true})
	url := server.Database(t)
	Exec(t, url, "CREATE TABLE kept (n bigint)")
	server.Stop(t, "immediate")
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Fatal("a stopped server accepts connections")
	}
	server.Start(t)
	Exec(t, url, "INSERT INTO kept VALUES (1)")
}

// Each test has a database of its own.
func TestDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	for range 2 {
		Exec(t, Database(t), "CREATE TABLE mine (n bigint)")
	}
}

// Copies of a template have its tables, and what one test stores no other one sees.
func TestTemplateIsCopied(t *testing.T) {
	t.Parallel()
	template := Template{Make: func(url string) error {
		Exec(t, url, "CREATE TABLE kept (n bigint PRIMARY KEY)")
		return nil
	}}
	for range 2 {
		Exec(t, template.Database(t), "INSERT INTO kept VALUES (1)")
	}
}
