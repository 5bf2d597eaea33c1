package faulttest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// runCommand runs a subcommand, checks its exit status, and returns its standard output.
func (w *world) runCommand(status int, args ...string) (said string) {
	w.t.Helper()
	p := w.run(nil, args...)
	p.MustExit(status)
	return p.Stdout.String()
}

// converse sends texts of a person, and waits for the answer to each.
func (w *world) converse(chat int, texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		w.say(chat, text)
		w.awaitAnswer(chat, text)
	}
}

// expectWhole checks a database file that nobody has open: SQLite finds no damage, and it holds at
// least this number of messages.
func (w *world) expectWhole(path string, messages int) {
	w.t.Helper()
	db := openSQLite(w.t, path)
	defer db.Close()
	if got := column(w.t, db, `PRAGMA integrity_check`); !slices.Equal(got, []string{"ok"}) {
		w.t.Errorf("%s: integrity_check: %v", path, got)
	}
	if got := column(w.t, db, `SELECT 'only ' || count(*) FROM messages HAVING count(*) < `+fmt.Sprint(messages)); len(got) > 0 {
		w.t.Errorf("%s holds %s of %d messages", path, got[0], messages)
	}
}

// A copy that was put over the database of a killed gateway is refused before anything is changed. The
// restore command then does it correctly.
func TestACopyOverAKilledGatewaysDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	const attempts = 3
	for attempt := range attempts {
		p := w.startServing()
		w.converse(1, fmt.Sprintf("a%d", attempt))
		copied := filepath.Join(w.gw.Dir, fmt.Sprintf("copy%d.db", attempt))
		w.runCommand(0, "backup", copied)
		w.converse(1, fmt.Sprintf("b%d", attempt))
		p.Kill()
		bytes, err := os.ReadFile(copied)
		w.must(err)
		w.must(os.WriteFile(w.gw.Database, bytes, 0o600))

		log, err := os.ReadFile(w.gw.Database + "-wal")
		w.must(err)
		p = w.start()
		p.MustExit(1)
		if said := p.Stderr.String(); !strings.Contains(said, "was written for another file") || !strings.Contains(said, "gateway restore") {
			t.Errorf("it says %s", said)
		}
		if now, err := os.ReadFile(w.gw.Database); err != nil || string(now) != string(bytes) {
			t.Error("the copy was changed")
		}
		if now, err := os.ReadFile(w.gw.Database + "-wal"); err != nil || string(now) != string(log) {
			t.Error("the log was changed")
		}
		if said := w.runCommand(0, "restore", copied); !strings.Contains(said, "-wal") {
			t.Errorf("restore says %s", said)
		}
		w.expectWhole(w.gw.Database, 2*attempt+2)
	}
	p := w.startServing()
	w.converse(1, "last")
	p.Stop()
	w.expectWhole(w.gw.Database, 2*attempts+2)
}

// A backup that is killed leaves no target, or a complete one; a gateway that
// answers meanwhile is not affected.
func TestBackupKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startServing()
	w.converse(1, "m1", "m2", "m3")
	dir := t.TempDir()
	target := filepath.Join(dir, "copy.db")
	made, said := 0, 0
	for range fromEnv(t, "FAULT_KILLS", 10) {
		backup := w.run(nil, "backup", target)
		backup.KillWithin(400 * time.Millisecond)
		said++
		w.converse(2, fmt.Sprintf("n%d", said))
		if _, err := os.Stat(target); err == nil {
			made++
			w.expectWhole(target, 6)
			w.must(os.Remove(target))
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d backups were made before the kill", made, said)
	w.runCommand(0, "backup", target)
	w.expectWhole(target, 6+2*said)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	p.Stop()
	w.expectClean()
}

// A restore that is killed leaves the old database or the new one, whole, and
// the next start works with it.
func TestRestoreKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startServing()
	w.converse(1, "m1", "m2")
	copied := filepath.Join(w.gw.Dir, "copy.db")
	w.runCommand(0, "backup", copied)
	w.converse(1, "m3", "m4")
	p.Kill()
	old := map[string][]byte{}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		bytes, err := os.ReadFile(w.gw.Database + suffix)
		w.must(err)
		old[suffix] = bytes
	}
	seen := map[string]int{}
	for attempt := range fromEnv(t, "FAULT_KILLS", 16) {
		restore := w.run(nil, "restore", copied)
		limit := 300 * time.Millisecond
		if attempt%4 != 0 {
			limit = 3 * time.Millisecond
			for !restore.HasEnded() { // it is killed when it has begun to rename
				if _, err := os.Lstat(w.gw.Database + ".replacing"); err == nil {
					break
				}
				runtime.Gosched()
			}
		}
		restore.KillWithin(limit)
		interrupted := "killed at its renames"
		if _, err := os.Lstat(w.gw.Database + ".replacing"); err != nil {
			interrupted = "killed before or after"
		}
		seen[interrupted]++

		w.runCommand(0, "sessions", "list")
		db := openSQLite(t, w.gw.Database)
		if got := column(t, db, `PRAGMA integrity_check`); !slices.Equal(got, []string{"ok"}) {
			t.Fatalf("attempt %d, %s: integrity_check: %v", attempt, interrupted, got)
		}
		got := column(t, db, `SELECT group_concat(content, ' ') FROM messages WHERE role = 'user' ORDER BY id`)[0]
		db.Close()
		switch got {
		case "m1 m2", "m1 m2 m3 m4":
			seen[got]++
		default:
			t.Fatalf("attempt %d, %s: the database holds %q", attempt, interrupted, got)
		}
		kept, err := filepath.Glob(w.gw.Database + ".before-*")
		w.must(err)
		if got == "m1 m2" && len(kept) < 2 {
			t.Errorf("attempt %d, %s: of the old database is kept %v", attempt, interrupted, kept)
		}
		for _, path := range kept {
			w.must(os.Remove(path))
		}
		for suffix, bytes := range old {
			w.must(os.WriteFile(w.gw.Database+suffix, bytes, 0o600))
		}
	}
	t.Logf("%v", seen)
}
