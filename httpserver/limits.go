package httpserver

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// DefaultMaxBody is the maximum size of a request body in bytes, unless a route sets another.
const DefaultMaxBody = 1 << 20

// Limits keep one client from using up resources that all clients share. A zero
// field means its default.
type Limits struct {
	HeaderTimeout time.Duration // for the head of a request; default 10 s
	BodyTimeout   time.Duration // for a body, and a second more for every 32 KiB that the route takes; default 30 s
	WriteTimeout  time.Duration // for each write of an answer; default 30 s
	IdleTimeout   time.Duration // between two requests of a connection; default 2 min
	HeaderBytes   int           // of the head of a request; default 32 KiB

	// By client address. Known ones are signed in: a program may read a
	// conversation 2,000 times a second. Guesses are tokens that were wrong: the
	// answers to them come late, and further ones are refused at once.
	Known     Rate // default 4,000 requests a second, in bursts of 8,000
	Strangers Rate // default 20 requests a second, in bursts of 100
	Guesses   Rate // default one in 6 s, in bursts of 10

	GuessDelay     time.Duration // of the answer to a wrong token; default 1 s
	DelayedAnswers int           // at most at the same time, over all addresses; default 64
}

// Rate is how often something may happen.
type Rate struct {
	PerSecond float64
	Burst     int
}

func (l Limits) withDefaults() Limits {
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 10*time.Second)
	l.BodyTimeout = cmp.Or(l.BodyTimeout, 30*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 30*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 2*time.Minute)
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 32<<10)
	l.Known = cmp.Or(l.Known, Rate{4000, 8000})
	l.Strangers = cmp.Or(l.Strangers, Rate{20, 100})
	l.Guesses = cmp.Or(l.Guesses, Rate{1.0 / 6, 10})
	l.GuessDelay = cmp.Or(l.GuessDelay, time.Second)
	l.DelayedAnswers = cmp.Or(l.DelayedAnswers, 64)
	return l
}

// maxAddresses is how many clients are remembered, with some 100 bytes each.
const maxAddresses = 8192

// clientLimits limits how often each client may do something. It is safe for
// concurrent use.
type clientLimits struct {
	rate Rate

	mu      sync.Mutex
	clients map[netip.Prefix]*rate.Limiter
}

func newClientLimits(r Rate) *clientLimits {
	return &clientLimits{rate: r, clients: map[netip.Prefix]*rate.Limiter{}}
}

// allow counts what a client does, and reports whether it may.
func (c *clientLimits) allow(client netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limiter(client).Allow()
}

// limiter returns the limiter of a client. The caller holds the lock.
func (c *clientLimits) limiter(client netip.Prefix) *rate.Limiter {
	limiter := c.clients[client]
	if limiter == nil {
		if len(c.clients) >= maxAddresses {
			c.forget()
		}
		limiter = rate.NewLimiter(rate.Limit(c.rate.PerSecond), c.rate.Burst)
		c.clients[client] = limiter
	}
	return limiter
}

// forget removes the clients that have been quiet, or all of them when none was.
func (c *clientLimits) forget() {
	for client, limiter := range c.clients {
		if limiter.Tokens() >= float64(c.rate.Burst) {
			delete(c.clients, client)
		}
	}
	if len(c.clients) >= maxAddresses {
		clear(c.clients)
	}
}

// address returns where a request comes from, and the zero Addr when that is not
// known.
func (s *Server) address(r *http.Request) netip.Addr {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	if forwarded := r.Header.Values("X-Forwarded-For"); s.cfg.TrustProxy && len(forwarded) > 0 {
		// The proxy adds its client at the end; what stands before, anybody may have written.
		list := strings.Split(forwarded[len(forwarded)-1], ",")
		host = strings.TrimSpace(list[len(list)-1])
	}
	addr, _ := netip.ParseAddr(host) // the zero Addr when that is none
	return addr.Unmap().WithZone("")
}

// clientOf returns the client that an address counts for: with IPv6 its network,
// since one machine may have any number of addresses there.
func clientOf(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // the number of bits suits the address; the zero Addr gives the zero Prefix
	return prefix
}

// secure reports whether the client uses TLS, perhaps to a trusted proxy.
func (s *Server) secure(r *http.Request) bool {
	return r.TLS != nil || s.cfg.TrustProxy && r.Header.Get("X-Forwarded-Proto") == "https"
}
