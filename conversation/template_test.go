package conversation

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"parley/conversation/internal/dbtemplate"
)

// mustOpen opens an empty database in a folder of the test's own. The Path of a config is ignored.
func mustOpen(t testing.TB, config ...Config) *Store {
	t.Helper()
	return mustOpenAt(t, filepath.Join(t.TempDir(), "test.db"), config...)
}

// mustOpenAt opens the database at path, which it makes when there is none, and
// closes it when the test ends.
func mustOpenAt(t testing.TB, path string, config ...Config) *Store {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		emptyDatabase.Copy(t, path)
	}
	c := Config{}
	if len(config) > 0 {
		c = config[0]
	}
	c.Path = path
	s, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var emptyDatabase = dbtemplate.Template{Make: func(path string) error {
	s, err := Open(context.Background(), Config{Path: path})
	if err != nil {
		return err
	}
	return s.Close()
}}
