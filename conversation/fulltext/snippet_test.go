package fulltext

import (
	"strings"
	"testing"
)

func TestNewSnippet(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("filler ünd mehr ", 200)
	for _, c := range []struct{ text, query, want string }{
		{"the quick brown fox", `"quick brown" fox`, "the [quick brown] [fox]"},
		{"call parseConfig first", "config", "call parse[Config] first"},
		{"line one\n\n\tline\x00two", "two", "line one line [two]"},
		{"nothing of it", "else", "nothing of it"},
		{"", "else", ""},
	} {
		if got := NewSnippet(c.text, ParseQuery(c.query)).Mark("[", "]"); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.query, c.text, got, c.want)
		}
	}
	got := NewSnippet("needle "+filler+"the needle and the thread "+filler, ParseQuery("needle thread")).Mark("[", "]")
	if !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") || !strings.Contains(got, "the [needle] and the [thread]") || len(got) > 300 {
		t.Errorf("%q", got)
	}
}
