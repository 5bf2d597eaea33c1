package metrics

import "sync"

// otherTool counts calls of tools that do not exist: their names come from the model.
const otherTool = "other"

// tools are the tools that are counted by name.
type tools struct {
	mu    sync.Mutex
	known map[string]bool
}

func (t *tools) expect(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = map[string]bool{}
	for _, name := range names {
		t.known[name] = true
	}
}

// label returns the name of a tool, or otherTool when it is not known.
func (t *tools) label(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[name] {
		return name
	}
	return otherTool
}
