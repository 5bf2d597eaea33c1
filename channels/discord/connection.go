package discord

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"
)

// intents are the events that the bot asks for. Direct messages bring those of
// DMs, guilds those of channels and threads; the content of messages is
// privileged: https://discord.com/developers/docs/events/gateway#gateway-intents
const intents = discordgo.IntentsGuilds | discordgo.IntentsGuildMessages | discordgo.IntentsDirectMessages | discordgo.IntentMessageContent

const (
	// openTime limits the time to connect: to look up the address, to dial, and to
	// begin or resume a session. It is far longer than that takes.
	openTime = 30 * time.Second

	// silence is how long Discord's gateway may say nothing: it answers every
	// heartbeat, which is due after 41 s. https://discord.com/developers/docs/events/gateway#sending-heartbeats
	silence = 100 * time.Second
)

// connection is one session of the library, which can be opened again after it
// was cut, and then resumes. The goroutine of link.run alone calls its methods.
type connection struct {
	session *discordgo.Session
	link    *link
	stuck   bool          // the library may hold the session's lock for ever, see open
	heard   atomic.Bool   // an event came since the connection was opened
	refused atomic.Bool   // Discord did not begin or resume a session
	ended   chan struct{} // the connection has ended

	mu      sync.Mutex
	conn    net.Conn // the network connection below the websocket
	dropped bool     // the connection was closed for good: conn is not opened again
}

// newConnection returns a connection whose handlers only queue events.
func (l *link) newConnection(ctx context.Context) *connection {
	c := &connection{session: l.librarySession(ctx), link: l, ended: make(chan struct{}, 1)}
	c.session.Dialer = &websocket.Dialer{
		Proxy:            http.ProxyFromEnvironment,
		HandshakeTimeout: requestTimeout,
		NetDialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return c.dial(ctx, network, address) // the library's context never ends
		},
	}
	c.session.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) {
		c.heard.Store(true)
		l.events.push(event{shard: l.shard, kind: e.Type, data: e.RawData})
	})
	c.session.AddHandler(func(*discordgo.Session, *discordgo.Connect) {
		if !c.heard.Load() {
			c.refuse()
		}
	})
	c.session.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) {
		select {
		case c.ended <- struct{}{}:
		default:
		}
	})
	return c
}

// librarySession returns a session of the library with the settings of the adapter.
func (l *link) librarySession(ctx context.Context) *discordgo.Session {
	s, _ := discordgo.New("Bot " + l.Token) // its error is for a time when it logged in
	s.Client = &http.Client{Transport: bound{l.transport, ctx}, Timeout: requestTimeout, CheckRedirect: neverRedirect}
	s.ShouldRetryOnRateLimit = false // a refusal waits where ctx can end the wait
	s.MaxRestRetries = 0
	s.SyncEvents = true // else a goroutine each, and no order
	s.StateEnabled = false
	s.Compress = false
	s.ShouldReconnectOnError = false
	s.LogLevel = silent
	s.Identify.Intents = intents
	s.ShardID, s.ShardCount = l.shard.id, l.shard.of
	return s
}

var (
	errRefused = errors.New("the session was refused")
	errCut     = errors.New("the connection was cut")
	errStuck   = errors.New("the server began no session in time")
)

// open begins or resumes a session. While Discord says nothing of a session, an
// opcode 9 was the answer: see refuse.
//
// The library's Open holds the session's lock. When Discord asks in the midst of
// it to connect again (opcode 7), Open waits for that lock itself: it never
// returns, and neither does any other call of the session. So Open has a
// goroutine of its own, which is waited for within limits. If it is stuck then,
// it stays until the process ends, and with it the session, which nothing may
// touch any more.
func (c *connection) open(ctx context.Context) error {
	c.heard.Store(false)
	select {
	case <-c.ended:
	default:
	}
	limited, cancel := context.WithTimeout(ctx, c.link.openTime)
	defer cancel()
	opened := make(chan error, 1)
	go func() { opened <- c.session.Open() }()
	select {
	case err := <-opened:
		if err == nil && c.refused.Load() {
			return errRefused
		}
		return err
	case <-limited.Done():
		c.stuck = true
		c.drop()
		if ctx.Err() == nil {
			c.link.log.Warn("Discord connection attempt timed out, starting a new session", "limit", c.link.openTime)
		}
		return errStuck
	}
}

// isSpent reports whether the session can't be resumed.
func (c *connection) isSpent() bool { return c.stuck || c.refused.Load() }

// refuse ends a connection on which Discord has said that the session can't go
// on. The library has already asked for a new one on it, so that
// the next one has to wait, and would tell Discord of events of the old one.
func (c *connection) refuse() {
	c.refused.Store(true)
	c.link.gate.postpone()
	c.drop()
}

// dial connects, unless the session was given up meanwhile.
func (c *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		conn.Close()
		return nil, errCut
	}
	c.conn = &watched{conn, c.link.silence}
	return c.conn, nil
}

// drop cuts the connection for good, without a goodbye.
func (c *connection) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = true
	if c.conn != nil {
		c.conn.Close()
	}
}

// wait waits until the connection or ctx ends.
func (c *connection) wait(ctx context.Context) error {
	select {
	case <-c.ended:
		return errCut
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close closes the session properly, which ends it. There may be no connection.
func (c *connection) close() {
	if c != nil && !c.stuck {
		c.session.Close()
	}
}

// watched is a connection that is cut when the other side is silent. The library
// would close it properly, which ends the session.
type watched struct {
	net.Conn
	silence time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(w.silence)); err != nil {
		return 0, err
	}
	n, err := w.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.Close()
	}
	return n, err
}
