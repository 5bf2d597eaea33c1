package storetest

import (
	"context"
	"path/filepath"
	"testing"

	"parley/conversation"
	"parley/conversation/internal/dbtemplate"
)

// New opens an empty database in a folder of the test's own, and closes it when the
// test ends.
func New(t testing.TB, config ...conversation.Config) *conversation.Store {
	t.Helper()
	return Open(t, filepath.Join(t.TempDir(), "test.db"), config...)
}

// Open opens the database at path, which it makes when there is none, and closes it
// when the test ends.
func Open(t testing.TB, path string, config ...conversation.Config) *conversation.Store {
	t.Helper()
	c := conversation.Config{}
	if len(config) > 0 {
		c = config[0]
	}
	c.Path = Database(t, path)
	store, err := conversation.Open(context.Background(), c)
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
	store, err := conversation.Open(context.Background(), conversation.Config{Path: path})
	if err != nil {
		return err
	}
	return store.Close()
}}
