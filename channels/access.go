package channels

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"parley/conversation"
)

// Access modes, as the configuration spells them.
const (
	AccessPairing   = "pairing"   // those named in the list may talk, and whom the operator let in by a code
	AccessAllowlist = "allowlist" // those named in the list may
	AccessOpen      = "open"      // everybody may
)

// Access decides who may talk to the assistant. It is safe for concurrent use.
type Access struct {
	everybody bool
	allowed   map[string]struct{} // ids and lower-case @usernames
	pairing   *pairing            // nil: strangers get no code
	strangers strangers
	log       *slog.Logger
}

// NewAccess makes the check of one channel. An empty mode is "pairing".
// Entries of allow are platform ids, @usernames in any case, and "*" for
// everybody. pairings is used in the mode "pairing" only. The error names what
// was found and what is allowed.
func NewAccess(mode string, allow []string, channel string, pairings Pairings, log *slog.Logger) (*Access, error) {
	a := &Access{allowed: make(map[string]struct{}, len(allow)), log: log}
	switch mode {
	case AccessPairing, "":
		a.pairing = newPairing(channel, pairings, log)
	case AccessAllowlist:
	case AccessOpen:
		a.everybody = true
	default:
		return nil, fmt.Errorf("access = %q: allowed are %q, %q and %q", mode, AccessPairing, AccessAllowlist, AccessOpen)
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

// Admit decides about one message: whether its sender may talk. The names are
// what allow may hold beside the sender's id: usernames with a leading "@", and
// ids of roles and places, as the platform writes them; empty ones match
// nothing.
//
// The words, in markdown, are for a stranger who may not talk; "" is silence.
// They come in private chats only, and so rarely that a stranger can't make the
// gateway write much. Whether they arrive is of no account: who writes again
// later gets them again.
//
// The error says that the store could not be asked, and that nothing is
// decided: ask again before the platform is told that the message was taken.
func (a *Access) Admit(ctx context.Context, who conversation.Sender, private bool, names ...string) (ok bool, words string, err error) {
	names = slices.Concat([]string{who.ID}, names)
	if a.Allows(names...) {
		return true, "", nil
	}
	if a.pairing != nil {
		ok, words, err = a.pairing.admit(ctx, who, private)
	}
	if ok || err != nil {
		return ok, "", err
	}
	if a.strangers.isNew(who.ID) && words == "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
		a.log.Info("a stranger gets no answer; any of the names in allow lets them in", "id", who.ID, "name", who.Name, "names", names)
	}
	return false, words, nil
}

// Allows reports whether the list alone lets one of the names in.
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

// Nobody reports that nobody can ever get in, which an operator wants to hear of.
func (a *Access) Nobody() bool { return !a.everybody && len(a.allowed) == 0 && a.pairing == nil }

// maxStrangers is how many are remembered; then the log repeats itself.
const maxStrangers = 10_000

// strangers are those who were seen, so that each is logged only once.
type strangers struct {
	mu    sync.Mutex
	known map[string]struct{}
}

// isNew reports whether id is seen for the first time.
func (s *strangers) isNew(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.known[id]; known {
		return false
	}
	if s.known == nil || len(s.known) >= maxStrangers {
		s.known = map[string]struct{}{}
	}
	s.known[id] = struct{}{}
	return true
}
