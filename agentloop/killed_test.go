package agentloop

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"parley/conversation"
	"parley/conversation/dbfile"
	"parley/conversation/maintenance"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

// copyAsKilled copies the database of a store that is in use, as a kill of its process at this moment leaves it, and
// returns what to open.
func copyAsKilled(t *testing.T, s *conversation.Store) string {
	if !storetest.OnPostgres() {
		path := filepath.Join(t.TempDir(), "killed.db")
		if _, err := maintenance.Backup(context.Background(), s.Path(), path, maintenance.BackupOptions{}); err != nil {
			t.Error(err)
		}
		return path
	}
	url := postgrestest.Copy(t, s.Path())
	db, err := dbfile.OpenURL(url)
	if err == nil { // as the other nodes do after some seconds
		_, err = db.ExecContext(context.Background(), `UPDATE nodes SET dead_at = 1 WHERE dead_at IS NULL; DELETE FROM lanes`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Error(err)
	}
	return url
}

// copyOnce copies the database as copyAsKilled does, the first time that it is called.
func (h *harness) copyOnce() { h.copying.Do(func() { h.copied = copyAsKilled(h.t, h.store) }) }

// copyAt returns a function that copies the database of a harness the first time that a point is reached.
func copyAt[H interface{ copyOnce() }](wanted string) func(h H, point string) {
	return func(h H, point string) {
		if point == wanted {
			h.copyOnce()
		}
	}
}
