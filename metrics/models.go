package metrics

import "sync"

// maxModels is how many models are counted by name. The server that answers
// chooses the name, and each has some 40 series.
const maxModels = 64

// models are the names that have become labels.
type models struct {
	mu    sync.Mutex
	known map[string]bool
}

// label returns the name of a model, or "other" when there are too many already.
func (m *models) label(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[name] {
		return name
	}
	if len(m.known) >= maxModels {
		return "other"
	}
	if m.known == nil {
		m.known = map[string]bool{}
	}
	m.known[name] = true
	return name
}
