package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is piped into `gateway ask` stands below the words. A picture or a program is refused, with what to do instead, and not
// sent to the model as garbage.
func TestPipedTextIsAskedAndOtherInputIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ piped, asked, refused string }{
		{"+ a line\n", "what changed\n\n+ a line", ""},
		{"Grüße 👋\n", "what changed\n\nGrüße 👋", ""},
		{"", "what changed", ""},
		{"\x89PNG\r\n\x1a\n\x00\x00", "", "no text in UTF-8; send it as a file with /attach"},
		{"text, then\x00zeros", "", "no text in UTF-8"},
	} {
		name := filepath.Join(t.TempDir(), "input")
		if err := os.WriteFile(name, []byte(c.piped), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := question([]string{"what", "changed"}, in)
		in.Close()
		if asked != c.asked || c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%q: asked %q, %v", c.piped, asked, err)
		}
	}
}
