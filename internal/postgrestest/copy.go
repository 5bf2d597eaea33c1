package postgrestest

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// Copy copies a database of the shared server as it is at this moment, also while it is in use, and returns the URL of the copy,
// which is dropped when the test ends.
func Copy(t testing.TB, from string) string {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	source, err := url.Parse(from)
	if err != nil {
		t.Fatal(err)
	}
	to := server.Database(t)
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	name := func(u *url.URL) string { return strings.TrimPrefix(u.Path, "/") }
	dump := filepath.Join(server.dir, name(target)+".sql")
	if err := server.run("pg_dump", "-h", server.dir, "-U", "parley", "-f", dump, name(source)); err != nil {
		t.Fatal(err)
	}
	if err := server.run("psql", "-h", server.dir, "-U", "parley", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, name(target)); err != nil {
		t.Fatal(err)
	}
	return to
}
