package postgrestest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy forwards connections of a program to a server, and fails like networks and connection pools.
type Proxy struct {
	listener net.Listener
	server   string // path of the server's socket
	database string

	dropNotices atomic.Bool
	commit      atomic.Int32 // what happens to the next COMMIT
	hangs       atomic.Bool
	trips       atomic.Int64
	received    atomic.Int64

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

// The fates of a COMMIT.
const (
	passCommit     = iota
	loseCommit     // the connection breaks before the server has read it
	loseItsOutcome // the connection breaks before the program has read the answer
	loseTheServer  // as with loseItsOutcome, and no further connection can be made
)

// NewProxy starts a proxy to the database at a URL of this package.
func NewProxy(t testing.TB, databaseURL string) *Proxy {
	t.Helper()
	target, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		listener: listener,
		server:   filepath.Join(target.Query().Get("host"), socketName),
		database: strings.TrimPrefix(target.Path, "/"),
		conns:    map[net.Conn]bool{},
	}
	var serving sync.WaitGroup
	serving.Go(p.serve)
	t.Cleanup(func() {
		listener.Close()
		p.Interrupt()
		serving.Wait()
	})
	return p
}

// URL returns the URL of the database behind the proxy.
func (p *Proxy) URL() string {
	return fmt.Sprintf("postgres://parley@%s/%s?sslmode=disable", p.listener.Addr(), p.database)
}

// DropNotices makes the proxy drop all notifications of NOTIFY from now on.
func (p *Proxy) DropNotices() { p.dropNotices.Store(true) }

// LoseCommit breaks the connection of the next COMMIT. The server commits if received is true; the
// program gets no answer.
func (p *Proxy) LoseCommit(received bool) {
	if received {
		p.commit.Store(loseItsOutcome)
	} else {
		p.commit.Store(loseCommit)
	}
}

// LoseServerAtCommit has the server carry out the next COMMIT. The program gets no answer, and reaches the server only
// after Resume.
func (p *Proxy) LoseServerAtCommit() { p.commit.Store(loseTheServer) }

// RoundTrips returns how often programs have sent something and waited for the answer.
func (p *Proxy) RoundTrips() int64 { return p.trips.Load() }

// Received returns how many bytes programs have received of the server.
func (p *Proxy) Received() int64 { return p.received.Load() }

// Interrupt breaks all connections and refuses new ones until Resume.
func (p *Proxy) Interrupt() { p.interrupt(nil) }

// interrupt breaks all connections but one.
func (p *Proxy) interrupt(but net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for conn := range p.conns {
		if conn != but {
			conn.Close()
		}
	}
}

// Hang makes the proxy keep all connections open, and drop all messages, until Resume.
func (p *Proxy) Hang() { p.hangs.Store(true) }

// Resume ends an interruption, or a hang: connections that lost messages end.
func (p *Proxy) Resume() {
	if p.hangs.Swap(false) {
		p.Interrupt()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

func (p *Proxy) serve() {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.server)
		if err != nil || !p.admit(client, server) {
			client.Close()
			continue
		}
		open.Go(func() {
			p.fromClient(client, server)
			client.Close()
			_ = server.(*net.UnixConn).CloseWrite() // the server ends the connection when it has read all
		})
		open.Go(func() {
			defer p.end(client, server)
			p.fromServer(server, client)
			io.Copy(io.Discard, server)
		})
	}
}

// admit reports whether a new connection may be used.
func (p *Proxy) admit(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		server.Close()
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

func (p *Proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(p.conns, conn)
	}
}

// fromClient forwards messages until a connection ends.
func (p *Proxy) fromClient(client, server net.Conn) {
	first, err := readMessage(client, 0) // the startup message has no type
	for err == nil {
		if p.hangs.Load() {
			first, err = readMessage(client, 1)
			continue
		}
		if first[0] == queryType || first[0] == syncType {
			p.trips.Add(1)
		}
		if _, err = server.Write(first); err != nil {
			return
		}
		if first, err = readMessage(client, 1); err == nil && isCommit(first) {
			switch p.commit.Swap(passCommit) {
			case loseCommit:
				return
			case loseItsOutcome:
				whole, _ := readToSync(client, first)
				client.Close()
				server.Write(whole)
				return
			case loseTheServer:
				whole, _ := readToSync(client, first)
				p.interrupt(server)
				server.Write(whole)
				return
			}
		}
	}
}

func (p *Proxy) fromServer(server, client net.Conn) {
	for {
		message, err := readMessage(server, 1)
		if err != nil {
			return
		}
		const notification = 'A'
		if p.hangs.Load() || message[0] == notification && p.dropNotices.Load() {
			continue
		}
		n, err := client.Write(message)
		p.received.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// readMessage reads a message: its type, if it has one, its length as four bytes, and the rest.
func readMessage(r io.Reader, typeLength int) ([]byte, error) {
	header := make([]byte, typeLength+4)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(header[typeLength:])) - 4
	if length < 0 || length > 1<<30 {
		return nil, fmt.Errorf("a message has %d bytes", length)
	}
	message := append(header, make([]byte, length)...)
	_, err := io.ReadFull(r, message[len(header):])
	return message, err
}

// The types of messages after which a server answers.
const (
	queryType = 'Q'
	syncType  = 'S'
)

// readToSync reads the messages that belong to a statement, whose first one was read.
func readToSync(client io.Reader, first []byte) (all []byte, err error) {
	for all = first; first[0] != queryType && first[0] != syncType; all = append(all, first...) {
		if first, err = readMessage(client, 1); err != nil {
			return all, err
		}
	}
	return all, nil
}

// isCommit reports whether a message holds a COMMIT statement.
func isCommit(message []byte) bool {
	return (message[0] == 'Q' || message[0] == 'P') && bytes.Contains(bytes.ToLower(message[5:]), []byte("commit\x00"))
}
