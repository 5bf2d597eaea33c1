package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesAreSentByTheirPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for name, text := range map[string]string{"notes.txt": "buy milk", "my plan.txt": "sleep", "empty.txt": "", "long.txt": "longer than twenty bytes"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	notes, plan := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "my plan.txt")
	for line, want := range map[string]string{
		"/attach " + notes + " what is this?": "what is this?|" + notes,
		notes:                                 "|" + notes,
		"'" + plan + "' and " + notes:         "and " + notes + "|" + plan,
		strings.ReplaceAll(plan, " ", `\ `) + " " + notes: "|" + plan + "," + notes,
		"file://" + strings.ReplaceAll(plan, " ", "%20"):  "|" + plan,
		"~/notes.txt what?":         "what?|" + notes,
		"what is in " + notes + "?": "what is in " + notes + "?|",
		"/attached to it":           "/attached to it|",
		"/status":                   "/status|",
		"it's late":                 "it's late|",
		"/nowhere/notes.txt":        "/nowhere/notes.txt|",
		dir:                         dir + "|",
		"/attach":                   "|",
	} {
		paths, words, asked := dropped(line)
		if got := words + "|" + strings.Join(paths, ","); got != want || asked != (strings.HasPrefix(line, "/attach ") || line == "/attach") {
			t.Errorf("%s: %s, %t, want %s", line, got, asked, want)
		}
	}
	for path, want := range map[string]string{
		"/nowhere/a.txt":                "there is no file /nowhere/a.txt",
		dir:                             dir + " is no file",
		filepath.Join(dir, "empty.txt"): filepath.Join(dir, "empty.txt") + " is empty",
		filepath.Join(dir, "long.txt"):  filepath.Join(dir, "long.txt") + " has 24 bytes, and at most 20 bytes can be sent",
	} {
		if _, _, err := openFile(path, 20); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	file, mediaType, err := openFile(notes, 20)
	if err != nil || mediaType != "text/plain" {
		t.Fatalf("%s, %v", mediaType, err)
	}
	file.Close()
}
