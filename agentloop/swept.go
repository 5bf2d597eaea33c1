package agentloop

import (
	"maps"
	"sync"

	"parley/cluster"
	"parley/conversation"
)

// swept holds the sessions that the latest sweep has found: messages wait in them, and no other node works them.
type swept struct {
	mu       sync.Mutex
	sessions map[conversation.Key]waited

	forwarded map[conversation.Key]bool // sessions of which another node was told that messages wait
}

// waited says how long the oldest message of a session has waited, counted in sweeps.
type waited struct {
	inbound int64
	sweeps  int // consecutive sweeps that found the message waiting
}

// look returns how long the oldest message of each listed session has waited. found holds the waiting
// messages of each session, oldest first. The result of a regular sweep is kept and compared with the next.
func (s *swept) look(list []cluster.Claimable, found map[conversation.Key][]conversation.Revision, regular bool) map[conversation.Key]waited {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := make(map[conversation.Key]waited, len(list))
	for _, session := range list {
		key := conversation.Key(session.Key)
		var oldest int64 // 0 where it can't be read because of damage
		if len(found[key]) > 0 {
			oldest = found[key][0].Inbound
		}
		w := s.sessions[key]
		if w.inbound != oldest {
			w = waited{inbound: oldest}
		}
		if regular || w.sweeps == 0 {
			w.sweeps++
		}
		latest[key] = w
	}
	if regular {
		s.sessions = latest
		maps.DeleteFunc(s.forwarded, func(key conversation.Key, _ bool) bool { return len(found[key]) == 0 })
	}
	return latest
}

// forward notes that another node was told of what waits in a session.
func (s *swept) forward(key conversation.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forwarded == nil {
		s.forwarded = map[conversation.Key]bool{}
	}
	s.forwarded[key] = true
}

// wasForwarded reports whether another node was told of what waits in a session.
func (s *swept) wasForwarded(key conversation.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forwarded[key]
}

// has reports whether at least two sweeps have found a session. The node that it is placed on does not
// take it then, so any node may.
func (s *swept) has(key conversation.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[key].sweeps > 1
}
