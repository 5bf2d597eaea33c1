package webfetch

import (
	"sync"
	"time"

	"parley/conversation"
)

const (
	recentFor   = 10 * time.Minute
	recentBytes = 4 << 20 // bytes of all texts together
)

// recent keeps what was read last, so that the pages of a long text belong together and its
// site is asked once. Each session has its own: none learns what another has read.
type recent struct {
	mu    sync.Mutex
	pages map[recentKey]*page
	size  int
}

type recentKey struct {
	session conversation.Key
	url     string
}

// find returns a page that was read a short time ago.
func (r *recent) find(key recentKey) (page, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, known := r.pages[key]; known {
		return *p, true
	}
	return page{}, false
}

// keep keeps a page that goes on on a second page, if there is room for it.
func (r *recent) keep(key recentKey, p page) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key, r.pages[key])
	if len(p.text) <= pageSize || r.size+len(p.text) > recentBytes {
		return
	}
	if r.pages == nil {
		r.pages = map[recentKey]*page{}
	}
	r.pages[key] = &p
	r.size += len(p.text)
	time.AfterFunc(recentFor, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.remove(key, &p)
	})
}

// remove removes a page if it is still the one that is kept.
func (r *recent) remove(key recentKey, p *page) {
	if p != nil && r.pages[key] == p {
		delete(r.pages, key)
		r.size -= len(p.text)
	}
}
