package conversation_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
)

// Processes that open a database through a link and by its path share its locks, so that they never work
// the same session.
func TestALinkedDatabaseSharesItsLocks(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real.db"), filepath.Join(t.TempDir(), "link.db")
	s := storetest.Open(t, path)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	other := startOther(t, otherProcess{database: link, lock: string(storetest.Chat)})
	other.expect("open")
	_, err := s.Lock(storetest.Chat)
	var locked *conversation.LockedError
	if !errors.As(err, &locked) || locked.PID != other.cmd.Process.Pid {
		t.Errorf("a session that process %d works through a link gave %v", other.cmd.Process.Pid, err)
	}
	if _, err := os.Stat(link + ".lock"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link has a lock file of its own: %v", err)
	}
	if err := other.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, other.stdout) // until it has ended
	_ = other.cmd.Wait()                     // its output was read above
	release, err := s.Lock(storetest.Chat)
	if err != nil {
		t.Fatalf("the session is not free after its process ended: %v", err)
	}
	release()
}
