package httpserver

import (
	"context"
	"sync"
	"time"
)

// streams are the requests under way that last for as long as they are read. They
// end with the sign-in or the token that has let them in.
type streams struct {
	mu   sync.Mutex
	open map[*stream]struct{}
}

type stream struct {
	keys *keys  // the keys in force when the stream began
	pass string // the sign-in cookie that the stream began with; "" if it began with the token
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

// endIf ends the streams for which meant reports true.
func (s *streams) endIf(meant func(*stream) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.open {
		if meant(one) {
			one.end()
		}
	}
}

// passes returns the passes of the streams.
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

// watchEvery is how often the sign-ins of streams are checked.
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
		s.streams.endIf(func(one *stream) bool { return one.keys != k })
		for pass := range s.streams.passes() {
			if has, err := s.signIns.Has(ctx, hashed(pass)); err == nil && !has {
				s.streams.endIf(func(one *stream) bool { return one.pass == pass })
			}
		}
	}
}
