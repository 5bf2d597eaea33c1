package cli

import (
	"os"
	"testing"
)

// A chat does not end while its output is read, or can be read later.
func TestOutputsWithReadersAreKept(t *testing.T) {
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer out.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, kept := range []*os.File{out, file, null} {
		if readerGone(kept) {
			t.Errorf("%s is taken for a pipe without a reader", kept.Name())
		}
	}
	if _, err := out.Write(make([]byte, 1<<16)); err != nil { // what a pipe holds: pipe(7)
		t.Fatal(err)
	}
	if readerGone(out) {
		t.Error("a full pipe is taken for one without a reader")
	}
}
