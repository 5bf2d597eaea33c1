package maintenance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/internal/dbdamage"
)

// number reads a number from a database without changing it.
func number(t *testing.T, path, query string) (n int64) {
	t.Helper()
	db, err := openToRead(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestBackupCopiesADatabaseThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 20, 20)
	enlarge(t, database)
	writer := startDatabaseUser(t, database, true)
	target := filepath.Join(t.TempDir(), "copy.db")
	for range 5 {
		writer.await(t, 20)
		stored := writer.stored.Load()
		told := 0
		c, err := Backup(t.Context(), database, target, BackupOptions{Force: true, Progress: func(step Step, done, total int64) {
			if step == Copying {
				if told++; told == 2 { // in the middle of the copy, the other process goes on
					writer.await(t, 50)
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if told < 3 {
			t.Fatalf("progress was reported %d times", told)
		}
		held := number(t, target, `SELECT count(*) FROM messages m JOIN conversations c ON c.id = m.conversation_id
			JOIN sessions s ON s.id = c.session_id WHERE s.key = 'cli:load' AND m.role = 'user'`)
		if held < stored || held > writer.stored.Load()-40 {
			t.Errorf("the copy holds %d messages; %d were stored when it began, %d when it was done", held, stored, writer.stored.Load())
		}
		if c.Sessions != 3 || c.Messages != 80+2*held {
			t.Errorf("it says %+v", c)
		}
		if got := names(t, filepath.Dir(target)); !slices.Equal(got, []string{"copy.db"}) {
			t.Errorf("the folder holds %v", got)
		}
		if info, err := os.Stat(target); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	if mode := number(t, target, `SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'delete'`); mode != 1 {
		t.Error("the copy needs a log")
	}
	writer.stop()
	if n, stored := number(t, database, `SELECT count(*) FROM inbox WHERE source_id LIKE 'cli:load/%'`), writer.stored.Load(); n != stored {
		t.Errorf("the database holds %d of %d messages", n, stored)
	}
}

// The pages that a purge has freed are not in the copy, which has the same rows.
func TestBackupHasNoFreePages(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 5, 5)
	file, err := sqlite.Open(database, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{`CREATE TABLE filler (x)`, `INSERT INTO filler VALUES (zeroblob(4000000))`, `DROP TABLE filler`} {
		if _, err := file.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	const pages, free, messages = `PRAGMA page_count`, `PRAGMA freelist_count`, `SELECT count(*) FROM messages`
	target := filepath.Join(t.TempDir(), "copy.db")
	for range 2 { // the second time it replaces the first
		if _, err := Backup(t.Context(), database, target, BackupOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		if number(t, target, free) != 0 || number(t, target, pages) > number(t, database, pages)-900 || number(t, target, messages) != number(t, database, messages) {
			t.Errorf("the copy has %d pages, %d of them free; the database has %d and %d",
				number(t, target, pages), number(t, target, free), number(t, database, pages), number(t, database, free))
		}
	}
}

func TestBackupRefusesTargets(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 2)
	dir := t.TempDir()
	existing, link, used := filepath.Join(dir, "existing"), filepath.Join(dir, "link"), filepath.Join(dir, "used.db")
	for _, path := range []string{existing, used + "-wal"} {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(database, link); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for target, tt := range map[string]struct {
		force bool
		want  string
	}{
		pipe:                           {true, "is not a file"},
		existing:                       {false, "--force"},
		database:                       {true, "the database itself"},
		link:                           {true, "the database itself"},
		database + ".lock":             {true, "belong to a database"},
		filepath.Join(dir, "x.db-wal"): {false, "belong to a database"},
		used:                           {true, "a database in use"},
		dir:                            {true, "is a folder"},
		filepath.Join(dir, "no", "x"):  {false, "does not exist"},
		filepath.Join(existing, "x"):   {false, "the folder " + existing + " does not exist"},
	} {
		before := names(t, dir)
		if _, err := Backup(t.Context(), database, target, BackupOptions{Force: tt.force}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", target, err, tt.want)
		}
		if after := names(t, dir); !slices.Equal(before, after) {
			t.Errorf("%s: the folder holds %v", target, after)
		}
	}
	if text, _ := os.ReadFile(existing); string(text) != "mine" {
		t.Error("a file was replaced")
	}
	if _, err := Backup(t.Context(), database, existing, BackupOptions{Force: true}); err != nil {
		t.Error(err)
	}
}

// A file that appears at the target while the copy is made is not replaced.
func TestBackupReplacesNoFileThatAppearsMeanwhile(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 2)
	target := filepath.Join(t.TempDir(), "copy.db")
	_, err := Backup(t.Context(), database, target, BackupOptions{Progress: func(step Step, _, _ int64) {
		if step == Checking {
			if err := os.WriteFile(target, []byte("mine"), 0o600); err != nil {
				t.Error(err)
			}
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("it says %v", err)
	}
	if text, _ := os.ReadFile(target); string(text) != "mine" {
		t.Error("the file was replaced")
	}
	if got := names(t, filepath.Dir(target)); !slices.Equal(got, []string{"copy.db"}) {
		t.Errorf("the folder holds %v", got)
	}
}

func TestBackupLeavesNothingWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 100)
	for _, at := range []Step{Copying, Checking} {
		target := filepath.Join(t.TempDir(), "copy.db")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Backup(ctx, database, target, BackupOptions{Progress: func(step Step, _, _ int64) {
			if step == at {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", at, err)
		}
		if got := names(t, filepath.Dir(target)); len(got) > 0 {
			t.Errorf("%s: the folder holds %v", at, got)
		}
	}
}

// One backup at a time writes a file; what a killed one has left is used again.
func TestBackupsToOneFile(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 2)
	target := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal", "-journal"} {
		if err := os.WriteFile(draftName(target)+suffix, []byte("left"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	asked := false
	_, err := Backup(t.Context(), database, target, BackupOptions{Progress: func(Step, int64, int64) {
		if !asked {
			asked = true
			if _, err := Backup(t.Context(), database, target, BackupOptions{}); err == nil || !strings.Contains(err.Error(), "another process is writing") {
				t.Errorf("the second says %v", err)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, filepath.Dir(target)); !slices.Equal(got, []string{"copy.db"}) {
		t.Errorf("the folder holds %v", got)
	}
	if info, err := os.Stat(target); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A damaged database is not copied.
func TestBackupRefusesADamagedDatabase(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 100)
	damage(t, database, "messages", 1)
	target := filepath.Join(t.TempDir(), "copy.db")
	var damaged *DamagedError
	if _, err := Backup(t.Context(), database, target, BackupOptions{}); !errors.As(err, &damaged) || damaged.Path != database {
		t.Errorf("it says %v", err)
	}
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a copy: %v", err)
	}
}

// The files of a killed gateway are copied with the log, unless the log belongs to another file.
func TestBackupOfWhatAKilledProcessLeft(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 5)
	old := filepath.Join(t.TempDir(), "old.db")
	if _, err := Backup(t.Context(), database, old, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	writer := startDatabaseUser(t, database, true)
	writer.await(t, 10)
	writer.kill()
	stored := writer.stored.Load()
	target := filepath.Join(t.TempDir(), "copy.db")
	if _, err := Backup(t.Context(), database, target, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := number(t, target, `SELECT count(*) FROM inbox WHERE source_id LIKE 'cli:load/%'`); n < stored {
		t.Errorf("the copy holds %d messages, %d were stored", n, stored)
	}

	again := startDatabaseUser(t, database, true)
	again.await(t, 10)
	again.kill()
	copyFile(t, old, database)
	var foreign *db.ForeignLogError
	if _, err := Backup(t.Context(), database, target, BackupOptions{Force: true}); !errors.As(err, &foreign) {
		t.Errorf("a mixture gave %v", err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	bytes, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
}

// damage overwrites a number of leaf pages of a table or index, spread evenly. Nobody may have the
// database open.
func damage(t *testing.T, path, name string, count int) {
	t.Helper()
	leaves := dbdamage.Leaves(t, path, name)
	if len(leaves) <= count {
		t.Fatalf("%s has %d leaves", name, len(leaves))
	}
	for i := range count {
		dbdamage.Destroy(t, path, leaves[(i+1)*len(leaves)/(count+1)])
	}
}

// enlarge makes a database so large that it is copied in several steps.
func enlarge(t *testing.T, path string) {
	t.Helper()
	execute(t, path, `CREATE TABLE padding (bytes BLOB); INSERT INTO padding VALUES (zeroblob(2000000))`)
}
