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

// mustOpen opens an empty database in a folder of the test's own.
func mustOpen(t testing.TB, options ...Option) *Store {
	t.Helper()
	return mustOpenAt(t, filepath.Join(t.TempDir(), "test.db"), options...)
}

// mustOpenAt opens the database at path, which it makes when there is none, and
// closes it when the test ends.
func mustOpenAt(t testing.TB, path string, options ...Option) *Store {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		emptyDatabase.Copy(t, path)
	}
	s, err := Open(context.Background(), path, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var emptyDatabase = dbtemplate.Template{Make: func(path string) error {
	s, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	return s.Close()
}}
