package httpserver

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// connections are the open connections. It limits the fresh ones, which carried
// no request yet: browsers open some in advance, the shutdown of a server would
// wait 5 s for each, and an attacker would open them all.
type connections struct {
	most int // the most that may be open

	mu    sync.Mutex
	open  int
	fresh list.List // connections that have sent no request yet, of type net.Conn, the oldest first
	at    map[net.Conn]*list.Element
	ended bool
}

// note is called by http.Server with every new state of a connection. When all
// connections are used, it closes the oldest fresh one.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open++
		if c.open >= c.most {
			c.closeOldest()
		}
		c.add(conn)
	case http.StateClosed, http.StateHijacked:
		c.open--
		c.drop(conn)
	default:
		c.drop(conn)
	}
}

func (c *connections) add(conn net.Conn) {
	if c.ended {
		conn.Close()
		return
	}
	if c.at == nil {
		c.at = map[net.Conn]*list.Element{}
	}
	c.at[conn] = c.fresh.PushBack(conn)
}

func (c *connections) drop(conn net.Conn) {
	if element := c.at[conn]; element != nil {
		c.fresh.Remove(element)
		delete(c.at, conn)
	}
}

func (c *connections) closeOldest() {
	if oldest := c.fresh.Front(); oldest != nil {
		conn := oldest.Value.(net.Conn)
		c.drop(conn)
		conn.Close()
	}
}

// closeFresh closes the fresh connections, and those that are still to come.
func (c *connections) closeFresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for c.fresh.Len() > 0 {
		c.closeOldest()
	}
}
