package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with the configuration, as a sentence for the
// operator. It never holds a secret.
type Problem struct {
	File    string // as given to Load, or "environment"
	Line    int    // from 1; 0 when the problem has no line
	Column  int    // from 1, in characters; 0 when it says nothing
	Key     string // "telegram.send_rate"; may be empty
	Found   string
	Allowed string
}

func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Column > 0 {
		fmt.Fprintf(&b, ": column %d", p.Column)
	}
	if p.Key != "" {
		fmt.Fprintf(&b, ": %s", p.Key)
	}
	fmt.Fprintf(&b, ": found %s, allowed: %s", p.Found, p.Allowed)
	return b.String()
}

// Problems is everything wrong with the configuration, sorted by line.
type Problems []Problem

// Error has one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
}
