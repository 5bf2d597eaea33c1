package agentloop

import (
	"cmp"
	"slices"
	"sync"

	"parley/conversation"
)

// mailbox holds what the router has for a loop: the inbound itself, so that the
// loop need not read the store, and tasks.
type mailbox struct {
	ready chan struct{} // holds one token while there is something in it

	mu      sync.Mutex
	inbound []conversation.Inbound
	tasks   []*task
	stale   bool // the loop must read the store
	told    bool // the node that works the session was told of all inbound so far

	waited waited        // the first message that a sweep has found since the last call of works
	worked map[int64]int // the revision of each inbound that the loop works on, by inbound ID; nil = none
}

// mailboxSize is the number of messages that a mailbox holds. When more wait, the loop reads them
// from the store.
const mailboxSize = 200

func newMailbox() *mailbox {
	return &mailbox{ready: make(chan struct{}, 1)}
}

// put adds what a signal has that the loop does not know yet.
func (m *mailbox) put(s signal) {
	if m.take(s) {
		offer(m.ready)
	}
}

// take reports whether a signal has anything that the loop does not know.
func (m *mailbox) take(s signal) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s.task != nil:
		m.tasks = append(m.tasks, s.task)
	case len(s.found) > 0 && m.knows(s.found):
		return false
	default:
		m.add(s.inbound)
		m.waited = cmp.Or(m.waited, s.waited)
	}
	return true
}

// knows reports whether the loop works on all of a list, or finds it in the mailbox.
func (m *mailbox) knows(list []conversation.Revision) bool {
	for _, r := range list {
		edits, worked := m.worked[r.Inbound]
		in := slices.ContainsFunc(m.inbound, func(in conversation.Inbound) bool { return in.ID == r.Inbound && in.Revision == r.Edits })
		if !in && (!worked || edits != r.Edits) {
			return false
		}
	}
	return true
}

// works notes which inbound the loop works on from now on. It returns how long the first of it has waited, if a sweep
// has found it.
func (m *mailbox) works(waiting []conversation.Inbound) (found waited) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(waiting) > 0 && m.waited.inbound == waiting[0].ID {
		found = m.waited
	}
	m.waited, m.worked = waited{}, nil
	if len(waiting) > 0 {
		m.worked = make(map[int64]int, len(waiting))
	}
	for _, in := range waiting {
		m.worked[in.ID] = in.Revision
	}
	return found
}

// add puts inbound into the mailbox. An empty list has the loop read the store.
func (m *mailbox) add(inbound []conversation.Inbound) {
	m.told = false
	m.inbound = append(m.inbound, inbound...)
	if len(inbound) == 0 || len(m.inbound) > mailboxSize {
		m.inbound, m.stale = nil, true
	}
}

// takeTasks removes the tasks and returns them.
func (m *mailbox) takeTasks() []*task {
	m.mu.Lock()
	defer m.mu.Unlock()
	tasks := m.tasks
	m.tasks = nil
	return tasks
}

// untoldEnd returns a task that ends the conversation and of which the node that works the session has not been told, nil for none. It
// returns each task once.
func (m *mailbox) untoldEnd() *task {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tasks {
		if t.ends && !t.told {
			t.told = true
			return t
		}
	}
	return nil
}

// empty removes the inbound and returns it. stale reports whether the store has
// more.
func (m *mailbox) empty() (inbound []conversation.Inbound, stale bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inbound, stale = m.inbound, m.stale
	m.inbound, m.stale = nil, false
	return inbound, stale
}

// forward empties the mailbox except for its tasks, because another process is told to read the
// store instead. news reports whether something has come since the last time.
func (m *mailbox) forward() (news, tasks bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news = len(m.inbound) > 0 || m.stale && !m.told
	m.inbound, m.stale, m.told = nil, true, true
	select {
	case <-m.ready:
	default:
	}
	return news, len(m.tasks) > 0
}
