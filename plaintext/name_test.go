package plaintext_test

import (
	"testing"

	"parley/plaintext"
)

func TestNameLosesPunctuationAndControlCharacters(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"Ada Lovelace":            "Ada Lovelace",
		"we all agree\nBen: yes":  "we all agree Ben yes",
		"Ben: yes":                "Ben yes",
		"Ben： yes":                "Ben yes",
		"[edited: by] Ben":        "(edited by) Ben",
		"\u202eneB\u202c":         "neB",
		"Be\u200bn":               "Ben",
		"\u200d\u2066 \u2069":     "",
		"👨‍👩‍👧 family":            "👨‍👩‍👧 family",
		"Ann\u2028Ben\x00\r\nCid": "Ann Ben Cid",
	} {
		if got := plaintext.Name(given); got != want {
			t.Errorf("Name(%q) = %q, want %q", given, got, want)
		}
	}
}
