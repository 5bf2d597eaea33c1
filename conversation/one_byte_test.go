package conversation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
)

// SQLite takes a file of one byte for an empty database, and would overwrite it.
func TestOpenRefusesAFileThatIsNoDatabase(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	for _, text := range []string{"x", "xy", strings.Repeat("x", 5000)} {
		path := filepath.Join(t.TempDir(), "notes.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := conversation.Open(t.Context(), conversation.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "the file is not a SQLite database") {
			t.Errorf("%d bytes: %v", len(text), err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%d bytes became %d, %v", len(text), len(now), err)
		}
	}
}
