package httpserver

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// guesses slows down clients that show a wrong token. A right token is never
// delayed, so others at the same address can't keep its owner out.
type guesses struct {
	wrong *clientLimits // bounds wrong tokens by client
	delay time.Duration // delay of the answer to a wrong token
	slots chan struct{} // holds an element for each answer that is being delayed
	log   guessLog
}

func newGuesses(l Limits, log *slog.Logger) *guesses {
	return &guesses{
		wrong: newClientLimits(l.Guesses),
		delay: l.GuessDelay,
		slots: make(chan struct{}, l.DelayedAnswers),
		log: guessLog{
			log:     log,
			clients: newClientLimits(Rate{PerSecond: 1.0 / 60, Burst: 1}),
			all:     rate.NewLimiter(0.1, 10),
		},
	}
}

// refuse counts a wrong token, and returns the status of the answer after a
// delay: 401, or 429 at once when the client has shown too many or too many
// answers are being delayed.
func (s *Server) refuse(r *http.Request) int {
	g, address := s.guesses, s.address(r)
	g.log.note(address)
	if !g.wrong.allow(clientOf(address)) {
		return http.StatusTooManyRequests
	}
	select {
	case g.slots <- struct{}{}:
	default:
		return http.StatusTooManyRequests
	}
	defer func() { <-g.slots }()
	delay := time.NewTimer(g.delay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-r.Context().Done():
	case <-s.closing.Done():
	}
	return http.StatusUnauthorized
}

// guessLog logs wrong tokens with the client's address: once a minute for one
// client, and every ten seconds for all of them after the first ten.
type guessLog struct {
	log      *slog.Logger
	clients  *clientLimits
	all      *rate.Limiter
	unlogged atomic.Int64 // since the latest line
}

func (l *guessLog) note(address netip.Addr) {
	if !l.clients.allow(clientOf(address)) || !l.all.Allow() {
		l.unlogged.Add(1)
		return
	}
	l.log.Warn("wrong token", "address", address, "more_since_last_line", l.unlogged.Swap(0))
}
