package httpserver

import (
	"context"
	"sync"
	"time"
)

// streams are the requests under way that a sign-in, or the token, has let in
// and that go on for as long as they are read. They end with what let them in.
type streams struct {
	mu   sync.Mutex
	open map[*stream]struct{}
}

type stream struct {
	keys *keys  // that were in force when it began
	pass string // "" when the token let it in
	end  context.CancelFunc
}

func (s *streams) add(one *stream) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*stream]struct{}{}
	}
	s.open[one] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, one)
	}
}

// endWhere ends those that are meant.
func (s *streams) endWhere(meant func(*stream) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.open {
		if meant(one) {
			one.end()
		}
	}
}

// passes are those of the streams.
func (s *streams) passes() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	passes := map[string]bool{}
	for one := range s.open {
		if one.pass != "" {
			passes[one.pass] = true
		}
	}
	return passes
}

// watchEvery is how often streams are looked at for what has let them in.
const watchEvery = time.Second

// watchStreams ends the streams of tokens that were replaced, and of sign-ins
// that have ended, perhaps in another process, until ctx ends.
func (s *Server) watchStreams(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		k := s.keys()
		s.streams.endWhere(func(one *stream) bool { return one.keys != k })
		for pass := range s.streams.passes() {
			if has, err := s.signIns.Has(ctx, hashed(pass)); err == nil && !has {
				s.streams.endWhere(func(one *stream) bool { return one.pass == pass })
			}
		}
	}
}
