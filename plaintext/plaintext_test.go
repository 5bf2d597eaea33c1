package plaintext_test

import (
	"testing"

	"parley/plaintext"
)

// A name such as "x\u202egnp.exe" would be shown as "xexe.png".
func TestOneLineLosesWhatTurnsTheOrderOfALineAround(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"x\u202egnp.exe":            "xgnp.exe",
		"\u2067bill\u2069\n pdf":    "bill pdf",
		"שלום\u200f a\u200db":       "שלום\u200f a\u200db",
		"two\r\nlines\u2028\x1b[0m": "two lines [0m",
	} {
		if got := plaintext.OneLine(given); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", given, got, want)
		}
		if got := plaintext.ShortLine(given, 40); got != want {
			t.Errorf("ShortLine(%q) = %q, want %q", given, got, want)
		}
	}
}
