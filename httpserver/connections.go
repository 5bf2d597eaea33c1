package httpserver

import (
	"net"
	"net/http"
	"sync"
)

// fresh are the connections on which nothing was asked yet. Browsers open some
// in advance, and the end of a server would wait 5 s for each.
type fresh struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool // closes those that come late
}

// note is called by http.Server with every new state of a connection.
func (f *fresh) note(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != http.StateNew {
		delete(f.conns, conn)
		return
	}
	if f.ended {
		conn.Close()
		return
	}
	if f.conns == nil {
		f.conns = map[net.Conn]struct{}{}
	}
	f.conns[conn] = struct{}{}
}

func (f *fresh) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for conn := range f.conns {
		conn.Close()
	}
}
