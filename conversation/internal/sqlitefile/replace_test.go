package sqlitefile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)

const asideOf = "x.db.before-20260301-093000"

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// folder returns the paths of a database with its side files, and of a new database beside it.
func folder(t *testing.T) (path, fresh string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	fresh = path + ".fresh"
	for _, suffix := range suffixes {
		write(t, path+suffix, "old"+suffix)
	}
	write(t, fresh, "new")
	return path, fresh
}

// files lists the files in the folder of a database with their contents.
func files(t *testing.T, path string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s: %s", e.Name(), text))
	}
	return list
}

func replaced() []string {
	return []string{
		"x.db: new",
		asideOf + ": old", asideOf + "-journal: old-journal", asideOf + "-shm: old-shm", asideOf + "-wal: old-wal",
		asideOf + ".files: old.files",
	}
}

func expectFiles(t *testing.T, path string, want []string) {
	t.Helper()
	if got := files(t, path); !slices.Equal(got, want) {
		t.Errorf("the folder holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReplaceKeepsTheFilesThatStoodThere(t *testing.T) {
	t.Parallel()
	path, fresh := folder(t)
	done, err := Replace(path, fresh, "/copies/a.db", at)
	if err != nil {
		t.Fatal(err)
	}
	expectFiles(t, path, replaced())
	if done.Origin != "/copies/a.db" || len(done.Kept) != 5 || done.Kept[0] != filepath.Join(filepath.Dir(path), asideOf) {
		t.Errorf("it says %+v", done)
	}
	if _, pending, err := FinishReplace(path); pending || err != nil {
		t.Errorf("something is left to do: %v, %v", pending, err)
	}
}

func TestReplaceTakesANameThatIsFree(t *testing.T) {
	t.Parallel()
	path, fresh := folder(t)
	write(t, filepath.Join(filepath.Dir(path), asideOf+"-wal"), "of another")
	done, err := Replace(path, fresh, "", at)
	if err != nil || filepath.Base(done.Kept[0]) != asideOf+"-2" {
		t.Errorf("it says %+v, %v", done, err)
	}
}

// A replacement that was interrupted between any two steps is completed by the next process.
func TestFinishReplaceCompletesAnyBeginning(t *testing.T) {
	t.Parallel()
	for steps := range 7 {
		path, fresh := folder(t)
		r := replacement{Fresh: filepath.Base(fresh), Aside: asideOf, Origin: "/copies/a.db"}
		if err := r.write(path); err != nil {
			t.Fatal(err)
		}
		renames := [][2]string{}
		for _, suffix := range suffixes {
			renames = append(renames, [2]string{path + suffix, filepath.Join(filepath.Dir(path), asideOf+suffix)})
		}
		renames = append(renames, [2]string{fresh, path})
		for _, r := range renames[:steps] {
			if err := os.Rename(r[0], r[1]); err != nil {
				t.Fatal(err)
			}
		}
		if !Replacing(path) {
			t.Errorf("after %d steps no interrupted replacement is found", steps)
		}
		done, pending, err := FinishReplace(path)
		if err != nil || !pending || done.Origin != "/copies/a.db" || len(done.Kept) != 5 {
			t.Errorf("after %d steps: %+v, %v, %v", steps, done, pending, err)
		}
		expectFiles(t, path, replaced())
	}
}

// The earlier database is never lost, whatever files somebody has put into the folder meanwhile.
func TestFinishReplaceNeverOverwritesWhatItKept(t *testing.T) {
	t.Parallel()
	path, fresh := folder(t)
	r := replacement{Fresh: filepath.Base(fresh), Aside: asideOf}
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), asideOf)); err != nil {
		t.Fatal(err)
	}
	write(t, path, "made by an older gateway")
	before := files(t, path)
	if _, pending, err := FinishReplace(path); !pending || err == nil || !strings.Contains(err.Error(), "rename one of them") {
		t.Errorf("it says %v, %v", pending, err)
	}
	expectFiles(t, path, before)
}
