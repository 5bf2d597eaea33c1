package channels

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	"parley/conversation"
)

const (
	tellAgain = 10 * time.Minute // until a stranger who writes on is told the same code again
	fullPause = time.Minute      // until new codes are asked for again when there are too many
)

// Pairings is what pairing needs of the store.
type Pairings interface {
	IsPaired(ctx context.Context, channel, user string) (bool, error)
	AskPairing(ctx context.Context, channel, user, name string) (p conversation.Pairing, fresh bool, err error)
}

// pairing lets in whom the operator approved, also from another process and
// from the next message on, and gives everybody else a code in private.
type pairing struct {
	channel string
	store   Pairings
	log     *slog.Logger

	mu    sync.Mutex
	quiet map[string]time.Time // until when a stranger is told nothing, by id
	full  time.Time            // until when nobody gets a code; zero while there is room
}

func newPairing(channel string, store Pairings, log *slog.Logger) *pairing {
	return &pairing{channel: channel, store: store, log: log, quiet: map[string]time.Time{}}
}

func (p *pairing) admit(ctx context.Context, who conversation.Sender, private bool) (ok bool, words string, err error) {
	ok, err = p.store.IsPaired(ctx, p.channel, who.ID)
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
	if now.Before(p.quiet[who.ID]) || now.Before(p.full) {
		return false, "", nil
	}
	asked, fresh, err := p.store.AskPairing(ctx, p.channel, who.ID, who.Name)
	switch {
	case errors.Is(err, conversation.ErrTooManyPairings):
		if p.full.IsZero() {
			p.log.Warn("so many strangers have pairing codes that others get none for now: see gateway pair list", "id", who.ID, "name", who.Name)
		}
		p.full = now.Add(fullPause)
		return false, "", nil
	case err != nil:
		return false, "", err
	case !asked.ApprovedAt.IsZero(): // in the moment since IsPaired
		return true, "", nil
	}
	p.full = time.Time{}
	if fresh {
		p.log.Info("a stranger got a pairing code: gateway pair list shows it, gateway pair approve lets them in", "id", who.ID, "name", who.Name)
	}
	p.hush(who.ID, now, asked.ExpiresAt)
	return false, pairingWords(asked, now), nil
}

// hush keeps quiet towards a stranger for a while, but not longer than the
// code is good, and forgets those for whom that is over.
func (p *pairing) hush(id string, now, expires time.Time) {
	maps.DeleteFunc(p.quiet, func(_ string, until time.Time) bool { return !now.Before(until) })
	until := now.Add(tellAgain)
	if expires.Before(until) {
		until = expires
	}
	p.quiet[id] = until
}

func pairingWords(p conversation.Pairing, now time.Time) string {
	minutes := max(1, math.Round(p.ExpiresAt.Sub(now).Minutes()))
	return fmt.Sprintf("I talk only with people whom my owner has let in. Send the owner this code, which expires in %.0f min:\n\n"+
		"`%s`\n\nThe owner lets you in with `gateway pair approve %s`. Then write to me again.", minutes, p.Code, p.Code)
}
