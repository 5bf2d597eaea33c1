package storetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"parley/conversation"
	"parley/conversation/internal/dbtemplate"
)

// New opens an empty database in a folder of the test's own, and closes it when the
// test ends.
func New(t testing.TB, options ...conversation.Option) *conversation.Store {
	t.Helper()
	return Open(t, filepath.Join(t.TempDir(), "test.db"), options...)
}

// Open opens the database at path, which it makes when there is none, and closes it
// when the test ends.
func Open(t testing.TB, path string, options ...conversation.Option) *conversation.Store {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		Make(t, path)
	}
	store, err := conversation.Open(context.Background(), path, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) // the test may have closed it
	return store
}

// Make writes an empty database with the newest schema to path. Only the first one
// of a process runs the migrations.
func Make(t testing.TB, path string) {
	t.Helper()
	empty.Copy(t, path)
}

var empty = dbtemplate.Template{Make: func(path string) error {
	store, err := conversation.Open(context.Background(), path)
	if err != nil {
		return err
	}
	return store.Close()
}}
