package access

import (
	"sync"
	"time"
)

// adminMemory is how long the administrators of a place are remembered, so that
// nobody can make the gateway ask for them again and again.
const adminMemory = time.Minute

// AdminMemory remembers the administrators of places for a minute. The zero value
// is empty. It is safe for concurrent use.
type AdminMemory[Place comparable] struct {
	mu    sync.Mutex
	known map[Place]remembered
}

type remembered struct {
	admins []string
	at     time.Time
}

// Recall returns the administrators of a place, if Remember stored them within
// the last minute.
func (m *AdminMemory[Place]) Recall(place Place) (admins []string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.known[place]
	return r.admins, ok && time.Since(r.at) < adminMemory
}

// Remember stores the administrators of a place, and removes what is too old.
func (m *AdminMemory[Place]) Remember(place Place, admins []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[Place]remembered{}
	}
	for place, r := range m.known {
		if time.Since(r.at) >= adminMemory {
			delete(m.known, place)
		}
	}
	m.known[place] = remembered{admins, time.Now()}
}
