// Package glob matches names with the patterns of the configuration.
package glob

import "strings"

// Match reports whether a name has the form of a pattern, in which * stands for any
// characters.
func Match(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	name, is := strings.CutPrefix(name, first)
	for is {
		next, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(name, next)
		}
		_, name, is = strings.Cut(name, next)
		rest = more
	}
	return false
}

// Any reports whether one of the names has the form of one of the patterns.
func Any(patterns []string, names ...string) bool {
	for _, pattern := range patterns {
		for _, name := range names {
			if Match(pattern, name) {
				return true
			}
		}
	}
	return false
}
