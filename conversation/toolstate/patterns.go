package toolstate

import "strings"

// patterns are patterns of names, in lower case, each split at its stars.
type patterns [][]string

func newPatterns(list []string) (all patterns) {
	for _, pattern := range list {
		all = append(all, strings.Split(strings.ToLower(pattern), "*"))
	}
	return all
}

// match reports whether a name fits one of the patterns.
func (p patterns) match(name string) bool {
	name = strings.ToLower(name)
	for _, parts := range p {
		if matchParts(name, parts) {
			return true
		}
	}
	return false
}

// matchParts reports whether a name consists of the parts in this order, with anything
// between them.
func matchParts(name string, parts []string) bool {
	rest, found := strings.CutPrefix(name, parts[0])
	if !found || len(parts) == 1 {
		return found && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		if _, rest, found = strings.Cut(rest, part); !found {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}
