package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/channels"
)

func TestFilesAreSavedInTheirFolderAndNeverOverwrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, want := range map[string]string{"talk.md": "talk.md", "../../talk.json": "talk.json"} {
		for n, base := range []string{want, strings.Replace(want, ".", "-2.", 1)} {
			path, text := filepath.Join(folder, base), string(byte('a'+n))
			said := save(folder, &channels.File{Name: name, Data: []byte(text)})
			if got, err := os.ReadFile(path); err != nil || string(got) != text || said != "The file is `"+path+"`" {
				t.Errorf("%s: %q, %v, said %q", path, got, err, said)
			}
		}
	}
}
