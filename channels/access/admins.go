package access

import (
	"sync"
	"time"
)

// adminMemory is how long it is remembered who administers a place, so that
// nobody makes the gateway ask for it again and again.
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

// Recall returns the administrators of a place, by what Remember was told within
// the last minute.
func (m *AdminMemory[Place]) Recall(place Place) (admins []string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.known[place]
	return r.admins, ok && time.Since(r.at) < adminMemory
}

// Remember keeps the administrators of a place, and forgets what is too old.
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
