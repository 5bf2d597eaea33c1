package db

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/internal/clock"
)

// outage records whether the server can be reached. It is safe for concurrent use.
type outage struct {
	log *slog.Logger
	url string

	mu      sync.Mutex
	cause   error     // why the server can't be reached; nil = it can
	since   time.Time // when the outage began
	returns int       // how many outages have ended
}

// began records that the server can't be reached, and logs the beginning of an outage.
func (o *outage) began(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		o.since = time.Now()
		o.log.Error("database server can't be reached, nothing is stored", "database", o.url, "error", cause)
	}
	o.cause = cause
}

// ended records that the server can be reached, and logs the end of an outage.
func (o *outage) ended() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		return
	}
	o.log.Info("database server reached again", "database", o.url, "after", time.Since(o.since).Round(time.Millisecond))
	o.cause = nil
	o.returns++
}

// reason returns why the server can't be reached, or nil if it can.
func (o *outage) reason() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cause
}

// count returns how many outages have ended.
func (o *outage) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.returns
}

func (s *postgresServer) wasUnclean() bool { return false }

func (s *postgresServer) damaged() []string { return s.damages.list() }

func (s *postgresServer) noteDamage(part string, err error) { s.damages.met(part, err) }

func (s *postgresServer) moved() error {
	if cause := s.outage.reason(); cause != nil {
		return &unreachableError{cause}
	}
	return nil
}

// lacksRoom returns nil: what the server's disk has room for is not known here.
func (s *postgresServer) lacksRoom() error { return nil }

func (s *postgresServer) hasStoredSince(t time.Time) bool {
	return slices.ContainsFunc(s.lanes, func(l *lane) bool { return l.group.hasStoredSince(t) })
}

// checkUnclean does nothing: a server recovers by itself.
func (s *postgresServer) checkUnclean(context.Context) error { return nil }

// watch implements DB.Watch. It sends the server a query every second, to notice an outage while nothing is written.
func (s *postgresServer) watch(ctx context.Context, back func()) {
	seen := s.outage.count()
	clock.Every(ctx, watchEvery, func() {
		s.probe(ctx)
		if returns := s.outage.count(); returns != seen {
			seen = returns
			back()
		}
	})
}

const probeWait = 5 * time.Second

func (s *postgresServer) probe(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	var one int
	err := s.readers.QueryRowContext(asked, `SELECT 1`).Scan(&one)
	switch {
	case err == nil && s.node.Valid():
		s.outage.ended()
	case err != nil && ctx.Err() == nil:
		s.outage.began(err)
	}
}
