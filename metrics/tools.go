package metrics

import "sync"

// otherTool counts calls of tools that do not exist: their names come from the model.
const otherTool = "other"

// tools are the tools that are counted by name.
type tools struct {
	mu    sync.Mutex
	known map[string]bool
}

// maxTools is how many tools are counted by name. Servers choose the names of theirs, and may
// change them.
const maxTools = 512

// expect has tools counted by name, as far as there is room. It returns these.
func (t *tools) expect(names []string) (counted []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]bool{}
	}
	for _, name := range names {
		if !t.known[name] && len(t.known) < maxTools {
			t.known[name] = true
			counted = append(counted, name)
		}
	}
	return counted
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
