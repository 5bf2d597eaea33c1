package channels

import (
	"fmt"
	"strings"
)

// Access modes, as the configuration spells them.
const (
	AccessOpen      = "open"      // everybody may talk
	AccessAllowlist = "allowlist" // those named in the list may
)

// Access decides who may talk to the assistant.
type Access struct {
	everybody bool
	allowed   map[string]struct{} // ids and lower-case @usernames
}

// NewAccess makes the check of one adapter. An empty mode is "allowlist".
// Entries of allow are platform ids, @usernames in any case, and "*" for
// everybody. An allow-list without entries lets nobody in. The error names
// what was found and what is allowed.
func NewAccess(mode string, allow []string) (*Access, error) {
	a := &Access{allowed: make(map[string]struct{}, len(allow))}
	switch mode {
	case AccessOpen:
		a.everybody = true
	case AccessAllowlist, "":
	default:
		return nil, fmt.Errorf("access = %q: allowed are %q and %q", mode, AccessOpen, AccessAllowlist)
	}
	for _, entry := range allow {
		name := strings.TrimSpace(entry)
		switch name {
		case "", "@":
			return nil, fmt.Errorf("allow has the entry %q: allowed are ids, @usernames and \"*\"", entry)
		case "*":
			a.everybody = true
		default:
			a.allowed[strings.ToLower(name)] = struct{}{}
		}
	}
	return a, nil
}

// Allows reports whether any of the names may talk: ids as the platform
// writes them, and usernames with a leading "@". Empty names match nothing.
func (a *Access) Allows(names ...string) bool {
	if a.everybody {
		return true
	}
	for _, name := range names {
		if _, ok := a.allowed[strings.ToLower(name)]; ok {
			return true
		}
	}
	return false
}

// Nobody reports that no name can pass, which an operator wants to hear of.
func (a *Access) Nobody() bool { return !a.everybody && len(a.allowed) == 0 }
