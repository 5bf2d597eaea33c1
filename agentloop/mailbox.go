package agentloop

import (
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
}

// maxMail is how many messages a mailbox holds. When more wait, the loop reads them
// from the store.
const maxMail = 200

func newMailbox() *mailbox {
	return &mailbox{ready: make(chan struct{}, 1)}
}

func (m *mailbox) put(s signal) {
	m.mu.Lock()
	if s.task != nil {
		m.tasks = append(m.tasks, s.task)
	} else {
		m.add(s.inbound)
	}
	m.mu.Unlock()
	offer(m.ready)
}

// add puts inbound into the mailbox. An empty list has the loop read the store.
func (m *mailbox) add(inbound []conversation.Inbound) {
	m.inbound = append(m.inbound, inbound...)
	if len(inbound) == 0 || len(m.inbound) > maxMail {
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

// empty removes the inbound and returns it. stale reports whether the store has
// more.
func (m *mailbox) empty() (inbound []conversation.Inbound, stale bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inbound, stale = m.inbound, m.stale
	m.inbound, m.stale = nil, false
	return inbound, stale
}
