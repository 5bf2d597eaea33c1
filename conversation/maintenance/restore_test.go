package maintenance

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/internal/sqlitefile"
	"parley/conversation/signin"
)

func mustBackup(t *testing.T, database string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "copy.db")
	if _, err := Backup(t.Context(), database, copied, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	return copied
}

func mustRestore(t *testing.T, copied, database string) Restored {
	t.Helper()
	r, err := Restore(t.Context(), copied, database, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const messages = `SELECT count(*) FROM messages`

// The log of a killed process is set aside with its database, and both can be restored.
func TestRestoreSetsAsideWhatAKilledProcessLeft(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 5)
	copied := mustBackup(t, database)
	writer := startDatabaseUser(t, database, true)
	writer.await(t, 10)
	writer.kill()
	stored := writer.stored.Load()

	r := mustRestore(t, copied, database)
	if r.Messages != 10 || len(r.SetAside) != 3 || !strings.HasSuffix(r.SetAside[1], "-wal") {
		t.Errorf("it says %+v", r)
	}
	open(t, database)
	if n := number(t, database, messages); n != 10 {
		t.Errorf("the database holds %d messages, the copy 10", n)
	}
	if info, err := os.Stat(database); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	mustRestore(t, r.SetAside[0], database)
	if n := number(t, database, `SELECT count(*) FROM inbox WHERE source_id LIKE 'cli:load/%'`); n < stored {
		t.Errorf("what was set aside holds %d messages, %d were stored", n, stored)
	}
}

// open opens and closes a database like a gateway.
func open(t *testing.T, path string) {
	t.Helper()
	s, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	addTurn(t, s, "cli:opened", 1, "hello")
	if _, err := s.Delete(t.Context(), "cli:opened", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRestoreWhereNothingWas(t *testing.T) {
	t.Parallel()
	copied := mustBackup(t, newDatabase(t, 3))
	database := filepath.Join(t.TempDir(), "conversations.db")
	if r := mustRestore(t, copied, database); len(r.SetAside) != 0 {
		t.Errorf("it set aside %v", r.SetAside)
	}
	if got := names(t, filepath.Dir(database)); !slices.Equal(got, []string{"conversations.db", "conversations.db.lock"}) {
		t.Errorf("the folder holds %v", got)
	}
	open(t, database)
}

func TestRestoreRefusesWhileTheDatabaseIsOpen(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 3)
	copied := mustBackup(t, database)
	var inUse *db.InUseError
	expectInUse := func(pid int) {
		t.Helper()
		before := names(t, filepath.Dir(database))
		if _, err := Restore(t.Context(), copied, database, nil); !errors.As(err, &inUse) || inUse.PID != pid {
			t.Errorf("it says %v, want process %d", err, pid)
		}
		if after := names(t, filepath.Dir(database)); !slices.Equal(before, after) {
			t.Errorf("the folder holds %v, before %v", after, before)
		}
	}
	reader := startDatabaseUser(t, database, false)
	expectInUse(reader.cmd.Process.Pid)
	reader.stop()
	mustRestore(t, copied, database)
}

func TestRestoreRefusesWhatIsNoCopy(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 3)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("text"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	execute(t, path("other.db"), `CREATE TABLE bookmarks (url TEXT)`)
	copyFile(t, database, path("newer.db"))
	execute(t, path("newer.db"), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	copyFile(t, newDatabase(t, 100), path("damaged.db"))
	damage(t, path("damaged.db"), "messages", 1)
	copyFile(t, newDatabase(t, 3), path("dangling.db"))
	execute(t, path("dangling.db"), `PRAGMA foreign_keys = OFF; DELETE FROM sessions`)

	for name, want := range map[string]string{
		path("text"):        "not a SQLite database",
		path("empty"):       "not a database of this gateway",
		path("other.db"):    "not a database of this gateway",
		path("newer.db"):    "version 999",
		path("damaged.db"):  "is damaged",
		path("dangling.db"): "does not exist",
		path("missing"):     "there is no file",
		path("text/x"):      "there is no file",
		dir:                 "is not a file",
		database:            "the database itself",
	} {
		before := names(t, filepath.Dir(database))
		if _, err := Restore(t.Context(), name, database, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if after := names(t, filepath.Dir(database)); !slices.Equal(before, after) {
			t.Errorf("%s: the folder holds %v, before %v", name, after, before)
		}
	}
	if n := number(t, database, messages); n != 6 {
		t.Errorf("the database holds %d messages", n)
	}
}

func execute(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statements); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptedRestoreChangesNothing(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 5)
	copied := mustBackup(t, database)
	for _, at := range []Step{Copying, Checking} {
		before := names(t, filepath.Dir(database))
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Restore(ctx, copied, database, func(step Step, _, _ int64) {
			if step == at {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", at, err)
		}
		if after := names(t, filepath.Dir(database)); !slices.Equal(before, after) {
			t.Errorf("%s: the folder holds %v, before %v", at, after, before)
		}
	}
}

func TestOpenFinishesAnInterruptedRestore(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"gateway", "the same restore", "another restore", "backup"} {
		t.Run(by, func(t *testing.T) {
			database := newDatabase(t, 5)
			copied, other := mustBackup(t, newDatabase(t, 7)), mustBackup(t, newDatabase(t, 9))
			copyFile(t, copied, draftName(database))
			beginReplace(t, database, copied)
			if exists, err := Exists(database); !exists || err != nil {
				t.Errorf("there seems to be no database: %v", err)
			}
			want := int64(14)
			switch by {
			case "gateway":
				open(t, database)
			case "the same restore":
				if r := mustRestore(t, copied, database); !r.Finished || len(r.SetAside) != 1 {
					t.Errorf("it says %+v", r)
				}
			case "another restore":
				if r := mustRestore(t, other, database); r.Finished || r.Earlier != copied || len(r.EarlierAt) != 1 || len(r.SetAside) != 1 {
					t.Errorf("it says %+v", r)
				}
				want = 18
			case "backup":
				if n := number(t, mustBackup(t, database), messages); n != want {
					t.Errorf("the backup holds %d messages", n)
				}
			}
			if n := number(t, database, messages); n != want {
				t.Errorf("the database holds %d messages, want %d", n, want)
			}
			if sqlitefile.Replacing(database) {
				t.Error("the restore is not finished")
			}
			if _, err := os.Stat(draftName(database)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a draft is left: %v", err)
			}
		})
	}
}

// beginReplace leaves the files of a process that died after it had set the old database aside.
func beginReplace(t *testing.T, database, origin string) {
	t.Helper()
	record := `{"fresh":"` + filepath.Base(draftName(database)) + `","aside":"conversations.db.before-20260301-093000","origin":"` + origin + `"}`
	if err := os.WriteFile(database+".replacing", []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(database, database+".before-20260301-093000"); err != nil {
		t.Fatal(err)
	}
}

// A copy with a log beside it is read with it, and stays as it is.
func TestRestoreReadsACopyWithItsLog(t *testing.T) {
	t.Parallel()
	source := newDatabase(t, 3)
	writer := startDatabaseUser(t, source, true)
	writer.await(t, 5)
	writer.kill()
	dir := t.TempDir()
	copied := filepath.Join(dir, "copy.db")
	copyFile(t, source, copied)
	copyFile(t, source+"-wal", copied+"-wal")
	database := filepath.Join(t.TempDir(), "conversations.db")
	r := mustRestore(t, copied, database)
	if stored := writer.stored.Load(); r.Messages < 6+2*stored {
		t.Errorf("%d messages were restored, %d stored", r.Messages, 6+2*stored)
	}
	for suffix, original := range map[string]string{"": source, "-wal": source + "-wal"} {
		if !bytes.Equal(contentOf(t, copied+suffix), contentOf(t, original)) {
			t.Errorf("%s was changed", copied+suffix)
		}
	}

	copyFile(t, mustBackup(t, newDatabase(t, 50)), copied)
	var foreign *db.ForeignLogError
	if _, err := Restore(t.Context(), copied, database, nil); !errors.As(err, &foreign) {
		t.Errorf("a mixture gave %v", err)
	}
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A browser that has signed out since a copy was made stays signed out when the copy is restored.
func TestRestoreSignsNobodyIn(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 1)
	signIns := func() (*signin.SignIns, func()) {
		t.Helper()
		store, err := conversation.Open(t.Context(), conversation.Config{Path: database})
		if err != nil {
			t.Fatal(err)
		}
		return signin.New(store), func() { store.Close() }
	}
	before, end := signIns()
	if err := before.Add(t.Context(), "browser", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	copied := mustBackup(t, database)
	if err := before.End(t.Context(), "browser"); err != nil {
		t.Fatal(err)
	}
	end()
	mustRestore(t, copied, database)
	after, end := signIns()
	defer end()
	if has, err := after.Has(t.Context(), "browser"); has || err != nil {
		t.Errorf("the browser is signed in: %t, %v", has, err)
	}
}
