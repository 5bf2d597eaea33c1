package db

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A child that is being started has all files of its parent open until it runs its program. The database is free nevertheless.
func TestDatabaseIsFreeOnceItIsClosedThoughAChildStarts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	a, err := Exclude(path)
	if err != nil {
		t.Fatal(err)
	}
	ofChild, err := syscall.Dup(int(a.locks.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(ofChild)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a, err = Exclude(path)
	if err != nil {
		t.Fatalf("nobody has the database open: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
