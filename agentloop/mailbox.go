package agentloop

import (
	"sync"

	"parley/conversation"
)

// mailbox is what the router has for a loop. The inbound itself is handed over,
// so that a session that goes on need not be read from the store.
type mailbox struct {
	ready chan struct{} // there is something in it

	mu      sync.Mutex
	inbound []conversation.Inbound
	tasks   []*task
	stale   bool // the loop must read the store
}

// maxMail is how many messages a mailbox holds; of more the store is read.
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

// add puts inbound into the mailbox; none says that the store knows.
func (m *mailbox) add(inbound []conversation.Inbound) {
	m.inbound = append(m.inbound, inbound...)
	if len(inbound) == 0 || len(m.inbound) > maxMail {
		m.inbound, m.stale = nil, true
	}
}

// takeTasks gives what is to be done, and leaves nothing of it.
func (m *mailbox) takeTasks() []*task {
	m.mu.Lock()
	defer m.mu.Unlock()
	tasks := m.tasks
	m.tasks = nil
	return tasks
}

// empty gives the inbound in the mailbox, and leaves none in it.
func (m *mailbox) empty() (inbound []conversation.Inbound, stale bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inbound, stale = m.inbound, m.stale
	m.inbound, m.stale = nil, false
	return inbound, stale
}
