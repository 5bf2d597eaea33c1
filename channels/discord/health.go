package discord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/bwmarrin/discordgo"

	"parley/conversation/bots"
	"parley/internal/clock"
)

// health is the health of the bot. It combines that of its connections to the
// gateway and that of the REST API, which may reject the token while the
// connections stand.
type health struct {
	tell   HealthFunc
	log    *slog.Logger
	checks chan struct{} // signals that Discord refused a message with 401

	mu            sync.Mutex
	state, detail string // state of the connections to the gateway
	rest          string // why the REST API rejects the token; "" if it does not
	told          string // the state that was reported last
	silent        bool   // other nodes have the shards, and report their state
}

func newHealth(tell HealthFunc, log *slog.Logger) *health {
	return &health{tell: tell, log: log, checks: make(chan struct{}, 1)}
}

// connection sets the health of the connections.
func (f *health) connection(state, detail string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.detail = state, detail
	f.announce()
}

// refused notes that Discord refuses the bot, and reports whether that is new.
func (f *health) refused(why string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	isNew := f.state != bots.Rejected
	f.state, f.detail = bots.Rejected, why
	f.announce()
	return isNew
}

// setREST notes why the REST API rejects the token, "" when it does not.
func (f *health) setREST(rejection string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rest != rejection {
		f.rest = rejection
		f.announce()
	}
}

// setSilent sets whether other nodes report the state of the connections.
func (f *health) setSilent(silent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent != silent {
		f.silent = silent
		f.announce()
	}
}

// announce reports the combined health. The caller holds the lock.
func (f *health) announce() {
	state, detail := f.state, f.detail
	if f.rest != "" && state != bots.Rejected {
		state, detail = bots.Rejected, f.rest
	}
	if f.silent && state != bots.Rejected {
		return
	}
	switch is, was := state == bots.Rejected, f.told == bots.Rejected; {
	case is && was:
		return // nothing is new
	case is:
		f.log.Error(detail)
	case was && state == bots.Serving:
		f.log.Info("bot accepted by Discord again")
	}
	f.told = state
	f.tell(state, detail)
}

// isTokenRejected reports whether the REST API rejects the token.
func (f *health) isTokenRejected() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rest != ""
}

// checkToken makes guardToken try the token.
func (f *health) checkToken() {
	select {
	case f.checks <- struct{}{}:
	default:
	}
}

// rejection returns what the operator is told of an error that only they, or
// Discord, can mend.
func (c *Channel) rejection(err error) string {
	if errors.Is(err, errRejected) {
		err = tokenError(c.SetAt)
	}
	return strings.TrimPrefix(err.Error(), name+": ") + ". A changed configuration needs a restart; " +
		"without one the gateway asks again by itself, and goes on when Discord takes the bot"
}

// tokenError is errRejected with where the token is set, and what to do.
func tokenError(setAt string) error {
	return fmt.Errorf("%w; check it (%s) against the one of the Developer Portal's page Bot (Reset Token gives a new one), and api_url if it is set",
		errRejected, cmp.Or(setAt, "token in [discord]"))
}

// isTokenRefusal reports whether err says that the bot's token, and not that of
// an interaction, is rejected.
func isTokenRefusal(err error) bool {
	r := refused(err)
	return r.status == http.StatusUnauthorized && r.code != invalidToken
}

// guardToken tries the token whenever a message was refused as if the token were
// rejected, until ctx ends: the connections may stand all the while. As long as
// the token is rejected it tries again, less and less often.
func (c *Channel) guardToken(ctx context.Context) error {
	for {
		select {
		case <-c.health.checks:
		case <-ctx.Done():
			return nil
		}
		for waits := c.Probes.BackOff(); ; {
			err := c.api.call(ctx, request{method: http.MethodGet, url: discordgo.EndpointUser("@me"), limit: discordgo.EndpointUser("@me")}, nil)
			if err == nil {
				c.health.setREST("")
				break
			}
			if isTokenRefusal(err) {
				c.health.setREST(c.rejection(errRejected))
			} else if !c.health.isTokenRejected() {
				break // there is no reason to doubt the token
			}
			if clock.Sleep(ctx, waits.NextBackOff()) != nil {
				return nil
			}
		}
	}
}
