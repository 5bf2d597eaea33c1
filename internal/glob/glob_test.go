package glob_test

import (
	"testing"

	"parley/internal/glob"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"web:anna", "web:anna", true},
		{"web:anna", "web:anna2", false},
		{"*", "", true},
		{"telegram:chat:-100*", "telegram:chat:-1007", true},
		{"telegram:chat:-100*", "telegram:chat:42", false},
		{"*:topic:7", "telegram:chat:-1007:topic:7", true},
		{"a*b*b", "ab", false},
		{"a*b*b", "abb", true},
		{"a**b", "ab", true},
		{"", "x", false},
	} {
		if got := glob.Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}
