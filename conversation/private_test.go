package conversation_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
)

// From the next start on, only the owner can read a database and the files beside it, even if it was copied
// with other permissions.
func TestOpenTightensTheModeOfAnExistingDatabase(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "test.db")
	keeper := storetest.Open(t, path) // keeps -wal and -shm where they are
	storetest.Accept(t, keeper, storetest.Say("cli:x", 1, "private"))
	files := []string{path, path + "-wal", path + "-shm", path + ".lock"}
	for _, file := range files {
		chmod(t, file, 0o664)
	}
	var log bytes.Buffer
	open := func() {
		t.Helper()
		s, err := conversation.Open(context.Background(), conversation.Config{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
	}
	open()
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has the mode %o, want 600", filepath.Base(file), mode)
		}
		if !strings.Contains(log.String(), "file="+file+" ") {
			t.Errorf("the log does not name %s: %s", file, &log)
		}
	}
	log.Reset()
	open()
	if log.Len() > 0 {
		t.Errorf("the second start logs %s", &log)
	}
}
