package agentloop

import (
	"sync"

	"parley/cluster"
	"parley/conversation"
)

// swept are the sessions in which messages have waited for two sweeps although no other node works them: the
// node that they belong on does not take them.
type swept struct {
	mu     sync.Mutex
	latest map[conversation.Key]bool // waited at the latest sweep
	twice  map[conversation.Key]bool // and at the one before
}

// replace sets the sessions of the latest sweep and returns those that were among them before, too.
func (s *swept) replace(list []cluster.Claimable) (twice map[conversation.Key]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := make(map[conversation.Key]bool, len(list))
	twice = map[conversation.Key]bool{}
	for _, session := range list {
		key := conversation.Key(session.Key)
		latest[key] = true
		if s.latest[key] {
			twice[key] = true
		}
	}
	s.latest, s.twice = latest, twice
	return twice
}

// has reports whether a session has waited for two sweeps, so that any node may take it.
func (s *swept) has(key conversation.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.twice[key]
}
