package access

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"parley/conversation"
	stored "parley/conversation/pairing"
)

const tellAgain = 10 * time.Minute // until a stranger who writes on is told the same code again

// Codes are given out at a limited rate, and each is good for its hour: however
// many strangers come, they use up nothing that a later one needs, and nobody's
// code is void before its time. A crowd of a thousand gets codes at once; beyond
// that, two more strangers a second do, in the order in which they write again.
// That is at most 8,200 open codes, which the store holds, and few enough writes
// not to hold up the messages of those who may talk.
const (
	codesAtOnce    = 1000
	codesPerSecond = 2
)

const warnAgain = 10 * time.Minute // until a crowd of strangers is logged again

// pairing lets in whom the operator approved, also from another process and
// from the next message on, and gives everybody else a code in private.
type pairing struct {
	account  conversation.Account
	pairings Pairings
	log      *slog.Logger

	codes *rate.Limiter // new ones

	mu     sync.Mutex
	given  map[string]given // by the stranger's id
	warned time.Time        // when a crowd was logged last
}

// given is what is known of a stranger's code.
type given struct {
	quiet time.Time // until when the stranger is told nothing
	good  time.Time // until when the code is good
}

func newPairing(account conversation.Account, pairings Pairings, log *slog.Logger) *pairing {
	return &pairing{
		account: account, pairings: pairings, log: log, given: map[string]given{},
		codes: rate.NewLimiter(codesPerSecond, codesAtOnce),
	}
}

func (p *pairing) admit(ctx context.Context, who conversation.Sender, private bool) (ok bool, words string, err error) {
	ok, err = p.pairings.Has(ctx, p.account, who.ID)
	if ok || err != nil || !private {
		return ok, "", err
	}
	return p.ask(ctx, who)
}

// ask gets a stranger's code, unless they were told it a moment ago. Most of
// what a flood of strangers says does not reach the store's writer.
func (p *pairing) ask(ctx context.Context, who conversation.Sender) (paired bool, words string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	known := p.given[who.ID]
	if now.Before(known.quiet) {
		return false, "", nil
	}
	if !now.Before(known.good) && !p.codes.AllowN(now, 1) {
		if now.Sub(p.warned) >= warnAgain {
			p.warned = now
			p.log.Warn("so many strangers ask to be let in that some must write again to get a pairing code", "codes_per_second", codesPerSecond)
		}
		return false, "", nil
	}
	asked, fresh, err := p.pairings.Ask(ctx, p.account, who.ID, who.Name)
	switch {
	case err != nil:
		return false, "", err
	case !asked.ApprovedAt.IsZero(): // in the moment since IsPaired
		return true, "", nil
	}
	if fresh {
		p.log.Info("a stranger got a pairing code: gateway pair list shows it, gateway pair approve lets them in", "id", who.ID, "name", who.Name)
	}
	p.hush(who.ID, now, asked.ExpiresAt)
	return false, pairingWords(asked, now), nil
}

// hush keeps quiet towards a stranger for a while, but not longer than the
// code is good, and forgets those whose codes have expired.
func (p *pairing) hush(id string, now, expires time.Time) {
	maps.DeleteFunc(p.given, func(_ string, g given) bool { return !now.Before(g.good) })
	g := given{quiet: now.Add(tellAgain), good: expires}
	if expires.Before(g.quiet) {
		g.quiet = expires
	}
	p.given[id] = g
}

// unhush has a stranger told at their next message, since they were not now.
func (p *pairing) unhush(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g, known := p.given[id]; known {
		g.quiet = time.Time{}
		p.given[id] = g
	}
}

func pairingWords(p stored.Pairing, now time.Time) string {
	minutes := max(1, math.Round(p.ExpiresAt.Sub(now).Minutes()))
	return fmt.Sprintf("I talk only with people whom my owner has let in. Send the owner this code, which expires in %.0f min:\n\n"+
		"`%s`\n\nThe owner lets you in with `gateway pair approve %s`. Then write to me again.", minutes, p.Code, p.Code)
}
