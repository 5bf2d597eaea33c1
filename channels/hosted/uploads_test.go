package hosted_test

import (
	"testing"

	"parley/channels/hosted"
)

func TestFileNameIsTheLastElementAsItIsRead(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"x\u202egnp.exe":       "xgnp.exe",
		`C:\Pictures\cat.png`:  "cat.png",
		"../a\nb\x00.pdf":      "a b.pdf",
		"\u2066..\u2069":       "",
		"/":                    "",
		"שלום\u200f 1\xff.txt": "שלום\u200f 1.txt",
	} {
		if got := hosted.FileName(given); got != want {
			t.Errorf("FileName(%q) = %q, want %q", given, got, want)
		}
	}
}
