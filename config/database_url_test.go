package config

import (
	"path/filepath"
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
