// Package access decides who may talk to the assistant: by a list, by pairing
// codes, and by who administers a group.
package access

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"parley/conversation"
	stored "parley/conversation/pairing"
)

// The modes of access, as the configuration spells them.
const (
	Pairing   = "pairing"   // those on the list may talk, and those whom the operator let in with a code
	Allowlist = "allowlist" // only those on the list may talk
	Open      = "open"      // everybody may talk
)

// Control is the access check of one bot. It is safe for concurrent use.
type Control struct {
	channel   string
	everybody bool
	allowed   map[string]struct{} // ids and lower-case @usernames
	pairings  Pairings
	pairing   *pairing // nil: strangers get no code
	telling   telling
	strangers firstSeen // strangers that were logged, by id
	refused   firstSeen // usernames in allow that were logged, with the id that uses them now
	log       *slog.Logger
}

// Pairings stores who was let in; package conversation/pairing implements it.
type Pairings interface {
	// Has reports whether a person is paired with a bot.
	Has(ctx context.Context, of conversation.Account, user string) (bool, error)

	// Ask returns the pairing of a person with a bot. A person who has none gets a new
	// code, and fresh is true.
	Ask(ctx context.Context, of conversation.Account, user, name string) (p stored.Pairing, fresh bool, err error)

	// BindName binds a username to the first account that uses it, and returns the
	// one it is bound to.
	BindName(ctx context.Context, channel, name, holder string) (bound string, err error)
}

// Visitor is the sender of a message, as far as access depends on it.
type Visitor struct {
	Sender  conversation.Sender
	Private bool       // the message came in a private chat
	IDs     []string   // IDs of roles and places, which allow may name beside the sender's ID; empty ones match nothing
	Names   []Username // usernames of the sender and of the place; empty ones match nothing
}

// Username is a name that its holder can give up and somebody else can take.
type Username struct {
	Name   string // "@ada", as the platform writes it
	Holder string // id of the account or group that has it now
}

// New returns the access check of one bot. An empty mode means "pairing". Entries of
// allow are platform ids, @usernames in any case, and "*" for everybody. The
// pairings are used in the mode "pairing" and for usernames. An error names what
// was found and what is allowed.
func New(mode string, allow []string, account conversation.Account, pairings Pairings, log *slog.Logger) (*Control, error) {
	a := &Control{channel: account.Channel, allowed: make(map[string]struct{}, len(allow)), pairings: pairings, telling: newTelling(log), log: log}
	switch mode {
	case Pairing, "":
		a.pairing = newPairing(account, pairings, log)
	case Allowlist:
	case Open:
		a.everybody = true
	default:
		return nil, fmt.Errorf("access = %q: allowed are %q, %q and %q", mode, Pairing, Allowlist, Open)
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

// Admit reports whether the sender of a message may talk. A username in allow
// admits only the account or group that used it first, since names change hands.
// It refuses a later one, and logs that once.
//
// The words, in markdown, are for a stranger who may not talk; "" means silence.
// They come only in private chats, and rarely, so that a stranger can't make the
// gateway write much. Tell sends them.
//
// An error means that the store could not be read and that nothing is decided:
// the caller asks again before it acknowledges the message.
func (a *Control) Admit(ctx context.Context, v Visitor) (ok bool, words string, err error) {
	if a.AllowsIDs(v.Sender.ID) || a.AllowsIDs(v.IDs...) {
		return true, "", nil
	}
	if ok, err = a.admitsName(ctx, v); !ok && err == nil && a.pairing != nil {
		ok, words, err = a.pairing.admit(ctx, v.Sender, v.Private)
	}
	if ok || err != nil {
		return ok, "", err
	}
	if a.strangers.isNew(v.Sender.ID) && words == "" {
		a.log.Info("message from a stranger ignored; any of the names in allow lets them in", "id", v.Sender.ID, "name", v.Sender.Name, "names", v.all())
	}
	return false, words, nil
}

// Knows reports whether somebody may talk, as Admit does. It gives strangers no
// code, and logs none of them.
func (a *Control) Knows(ctx context.Context, v Visitor) (bool, error) {
	if a.AllowsIDs(v.Sender.ID) || a.AllowsIDs(v.IDs...) {
		return true, nil
	}
	if ok, err := a.admitsName(ctx, v); ok || err != nil || a.pairing == nil {
		return ok, err
	}
	return a.pairings.Has(ctx, a.pairing.account, v.Sender.ID)
}

// AllowsIDs reports whether the list alone admits one of the ids.
func (a *Control) AllowsIDs(ids ...string) bool {
	return a.everybody || slices.ContainsFunc(ids, a.lists)
}

func (a *Control) lists(entry string) bool {
	_, listed := a.allowed[strings.ToLower(entry)]
	return listed
}

// admitsName reports whether the list admits a visitor by a username, and binds
// the name to its holder.
func (a *Control) admitsName(ctx context.Context, v Visitor) (bool, error) {
	for _, u := range v.Names {
		if u.Name == "" || !a.lists(u.Name) {
			continue
		}
		bound, err := a.pairings.BindName(ctx, a.channel, u.Name, u.Holder)
		if err != nil {
			return false, err
		}
		if bound == u.Holder {
			return true, nil
		}
		if a.refused.isNew(u.Name + " " + u.Holder) {
			a.log.Warn("username in allow now belongs to another account, which is refused; put the id that you mean into allow instead, "+
				"or give the name to its new holder with `gateway pair revoke "+a.channel+":"+strings.ToLower(u.Name)+"`",
				"name", u.Name, "bound_to", bound, "id", u.Holder)
		}
	}
	return false, nil
}

// all returns the ids and names of a visitor that allow could contain.
func (v Visitor) all() []string {
	list := []string{v.Sender.ID}
	for _, u := range v.Names {
		list = append(list, u.Name)
	}
	return slices.DeleteFunc(append(list, v.IDs...), func(entry string) bool { return entry == "" })
}

// Nobody reports whether no sender can ever be admitted, so that the operator can be
// warned.
func (a *Control) Nobody() bool { return !a.everybody && len(a.allowed) == 0 && a.pairing == nil }

// maxStrangers is how many strangers are remembered; beyond that some are logged
// again.
const maxStrangers = 10_000

// firstSeen remembers who was seen, so that each is logged once.
type firstSeen struct {
	mu    sync.Mutex
	known map[string]struct{}
}

// isNew reports whether id is seen for the first time.
func (s *firstSeen) isNew(id string) bool {
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
