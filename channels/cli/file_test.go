package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/channels"
	"parley/conversation"
)

// A file that a reply brings lies in the folder, beside what was there, and
// nowhere else.
func TestFilesAreSavedAndNeverOverwrite(t *testing.T) {
	folder := t.TempDir()
	var out bytes.Buffer
	c, err := New(Options{In: strings.NewReader(""), Out: &out, Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d := conversation.Delivery{Key: c.Key(), Address: "earlier", Text: "Here it is."}
	for name, want := range map[string]string{"talk.md": "talk.md", "../../talk.json": "talk.json"} {
		for n, path := range []string{want, strings.Replace(want, ".", "-2.", 1)} {
			data := []byte{byte('a' + n)}
			if _, err := c.Send(t.Context(), d, channels.Part{Text: d.Text, File: &channels.File{Name: name, Data: data}}); err != nil {
				t.Fatal(err)
			}
			path = filepath.Join(folder, path)
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %q, %v", path, got, err)
			}
			if !strings.Contains(out.String(), path) {
				t.Errorf("it is not said where the file is: %q", out.String())
			}
		}
	}
}

func TestAFileThatCantBeWrittenIsSaid(t *testing.T) {
	var out bytes.Buffer
	c, err := New(Options{In: strings.NewReader(""), Out: &out, Folder: filepath.Join(t.TempDir(), "missing")})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d := conversation.Delivery{Key: c.Key(), Address: "earlier", Text: "Here it is."}
	if _, err := c.Send(t.Context(), d, channels.Part{Text: d.Text, File: &channels.File{Name: "talk.md"}}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "Here it is.") || !strings.Contains(got, "can't be written") {
		t.Errorf("printed %q", got)
	}
}
