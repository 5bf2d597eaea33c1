package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFileReplacesOrKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string, put func(from, to string) error) error {
		return WriteFile(path, "new-*", func(f *os.File) error {
			_, err := f.WriteString(text)
			return err
		}, put)
	}
	expect := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
			t.Errorf("the folder holds %v, %v; want the file alone", list, err)
		}
	}
	if err := write("one", os.Link); err != nil {
		t.Error(err)
	}
	expect("one")
	if err := write("two", os.Link); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that exists: %v", err)
	}
	expect("one")
	if err := write("three", os.Rename); err != nil {
		t.Error(err)
	}
	expect("three")
	failed := errors.New("failed")
	if err := WriteFile(path, "new-*", func(*os.File) error { return failed }, os.Rename); !errors.Is(err, failed) {
		t.Errorf("a file that can't be written: %v", err)
	}
	expect("three")
}
