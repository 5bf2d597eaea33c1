package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// DATABASE_URL is used only if the key is missing. A URL of another kind of database is ignored, since other programs use the
// variable, too.
func TestDatabaseURLStandsInForTheKey(t *testing.T) {
	t.Parallel()
	const own, other = "postgres://parley@db/parley", "mysql://parley@db/parley"
	dir := t.TempDir()
	file := filepath.Join(dir, "conversations.db")
	for _, c := range []struct{ text, variable, want string }{
		{"", own, own},
		{"", "postgresql://db/parley", "postgresql://db/parley"},
		{"", other, file},
		{"", "", file},
		{`database = "conversations.db"`, own, file},
		{`database = "postgres://key@db/parley"`, own, "postgres://key@db/parley"},
	} {
		path := filepath.Join(dir, "config.toml")
		write(t, path, c.text)
		cfg, err := Load(path, func(name string) string {
			if name == "DATABASE_URL" {
				return c.variable
			}
			return ""
		})
		if err != nil || cfg.Database != c.want {
			t.Errorf("%q with DATABASE_URL %q: %q, %v, want %q", c.text, c.variable, cfg.Database, err, c.want)
		}
	}
}

// An address that is meant for PostgreSQL, but is none, does not silently lead to a file.
func TestDatabaseURLOfOddShapes(t *testing.T) {
	for given, want := range map[string]string{
		" postgres://db/x\n":                   "postgres://db/x",
		"mysql://me@db/x":                      "conversations.db",
		"":                                     "conversations.db",
		"postgresql+asyncpg://me:hunter2@db/x": `environment: DATABASE_URL: found "postgresql+asyncpg://me:xxxxx@db/x" (string), allowed: a URL such as "postgres://parley@db.example.com/parley"`,
		"POSTGRES:db":                          `environment: DATABASE_URL: found "POSTGRES:db" (string), allowed: a URL such as "postgres://parley@db.example.com/parley"`,
	} {
		t.Chdir(t.TempDir())
		c, err := Load("", func(name string) string { return map[string]string{"DATABASE_URL": given}[name] })
		if err != nil && err.Error() != want || err == nil && c.Database != want {
			t.Errorf("%q: got %q, %v, want %s", given, c.Database, err, want)
		}
	}
}

// A password is hidden in every form in which people write it.
func TestPasswordsOfAddressesAreHidden(t *testing.T) {
	for _, address := range []string{
		"postgres://me:hunter2@db/x", " postgres://me:hunter2@db/x", "postgres://me:hunter2%zz@db/x", "postgres://me:hunter2/#?@db/x", "postgres://me:hunt@hunter2@db/x",
		"postgres://db/x?user=me&password=hunter2", "postgres://db/x?sslpassword=hunter2&user=me", "host=db password=hunter2 user=me", "//me:hunter2@db",
	} {
		if shown := hidePassword(address); strings.Contains(shown, "hunter2") || !strings.Contains(shown, "db") {
			t.Errorf("%s is shown as %s", address, shown)
		}
	}
	if plain := "http://127.0.0.1:8081/bot:7/@ada"; hidePassword(plain) != plain {
		t.Errorf("shown as %s", hidePassword(plain))
	}
}
