package discordtest

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// writeTimeout ends a connection whose client does not read.
const writeTimeout = 10 * time.Second

// closeGrace is how long a client may take to read that it was closed. The
// network may lose the close frame if the server hangs up at once.
const closeGrace = 2 * time.Second

// socket is one websocket of a client. Its own goroutine writes.
type socket struct {
	ws *websocket.Conn

	// Guarded by Server.mu:
	session *session  // nil before IDENTIFY or RESUME
	minute  time.Time // in which the client's payloads are counted
	heard   int       // payloads in it

	mu     sync.Mutex
	queue  [][]byte
	end    *Close // after what is queued
	signal chan struct{}
	gone   chan struct{} // closed when the client's frames end
}

// write queues a frame; it never blocks.
func (c *socket) write(frame []byte) {
	c.mu.Lock()
	c.queue = append(c.queue, frame)
	c.mu.Unlock()
	c.wake()
}

func (c *socket) writeOp(op int, data any) {
	c.write(marshal(map[string]any{"op": op, "d": data, "s": nil, "t": nil}))
}

// close ends the connection after what is queued.
func (c *socket) close(with Close) {
	c.mu.Lock()
	if c.end == nil {
		c.end = &with
	}
	c.mu.Unlock()
	c.wake()
}

func (c *socket) wake() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// pump writes what is queued until the connection ends.
func (c *socket) pump() {
	defer c.ws.Close()
	for {
		if !c.flush() {
			c.linger()
			return
		}
		select {
		case <-c.signal:
		case <-c.gone:
			c.flush()
			return
		}
	}
}

// linger waits for the client's side of the close.
func (c *socket) linger() {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-c.gone:
	case <-timer.C:
	}
}

// flush writes what is queued; false is the end of the connection.
func (c *socket) flush() bool {
	c.mu.Lock()
	frames, end := c.queue, c.end
	c.queue = nil
	c.mu.Unlock()
	for _, f := range frames {
		c.ws.SetWriteDeadline(time.Now().Add(writeTimeout))
		if c.ws.WriteMessage(websocket.TextMessage, f) != nil {
			return false
		}
	}
	if end != nil {
		message := websocket.FormatCloseMessage(end.Code, end.Reason)
		c.ws.WriteControl(websocket.CloseMessage, message, time.Now().Add(writeTimeout))
	}
	return end == nil
}

// ending reports whether the server has closed the connection already.
func (c *socket) ending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end != nil
}
