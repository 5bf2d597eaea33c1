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

const tellAgain = 10 * time.Minute // time after which a stranger who keeps writing is told the same code again

// New codes are rate limited, and each is valid for an hour, however many strangers
// come. The first thousand get codes at once; after that two strangers a second do,
// in the order in which they write again. There are at most 8,200 valid codes,
// which the store can hold, and so few writes that the messages of those who may
// talk are not delayed.
const (
	codesAtOnce    = 1000
	codesPerSecond = 2
)

const warnAgain = 10 * time.Minute // time after which it is logged again that there are too many requests

// pairing admits those whom the operator has approved, in this or another process
// and from the next message on, and offers everybody else a code in private.
type pairing struct {
	account  conversation.Account
	pairings Pairings
	log      *slog.Logger

	codes *rate.Limiter // bounds how many new codes are made

	mu     sync.Mutex
	issued map[string]issuedCode // the code of each stranger, by the stranger's ID
	warned time.Time             // when too many requests were logged last
}

// issuedCode remembers a stranger's code.
type issuedCode struct {
	quiet time.Time // until when the stranger is told nothing
	good  time.Time // until when the code is valid
}

func newPairing(account conversation.Account, pairings Pairings, log *slog.Logger) *pairing {
	return &pairing{
		account: account, pairings: pairings, log: log, issued: map[string]issuedCode{},
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

// ask returns an answer with a stranger's code, or no answer if the stranger got the code a
// moment ago, so that most messages of a flood of strangers cause no write.
func (p *pairing) ask(ctx context.Context, who conversation.Sender) (paired bool, words string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	known := p.issued[who.ID]
	if now.Before(known.quiet) {
		return false, "", nil
	}
	if !now.Before(known.good) && !p.codes.AllowN(now, 1) {
		if now.Sub(p.warned) >= warnAgain {
			p.warned = now
			p.log.Warn("too many pairing requests, some strangers must write again to get a code", "codes_per_second", codesPerSecond)
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
		p.log.Info("pairing code issued; `gateway pair list` shows it, `gateway pair approve` accepts it", "id", who.ID, "name", who.Name)
	}
	p.mute(who.ID, now, asked.ExpiresAt)
	return false, pairingWords(asked, now), nil
}

// mute suppresses further answers to a stranger for a while, at most until the code
// expires. It forgets strangers whose codes have expired.
func (p *pairing) mute(id string, now, expires time.Time) {
	maps.DeleteFunc(p.issued, func(_ string, g issuedCode) bool { return !now.Before(g.good) })
	g := issuedCode{quiet: now.Add(tellAgain), good: expires}
	if expires.Before(g.quiet) {
		g.quiet = expires
	}
	p.issued[id] = g
}

// unmute lets the next message of a stranger be answered with the code again, since it could
// not be sent.
func (p *pairing) unmute(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g, known := p.issued[id]; known {
		g.quiet = time.Time{}
		p.issued[id] = g
	}
}

func pairingWords(p stored.Pairing, now time.Time) string {
	minutes := max(1, math.Round(p.ExpiresAt.Sub(now).Minutes()))
	return fmt.Sprintf("I talk only with people whom my owner has let in. Send the owner this code, which expires in %.0f min:\n\n"+
		"`%s`\n\nThe owner lets you in with `gateway pair approve %s`. Then write to me again.", minutes, p.Code, p.Code)
}
