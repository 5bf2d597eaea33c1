package discord

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"
)

// intents are the events that the bot asks for. Direct messages bring those of
// DMs, guilds those of channels and threads; the content of messages is
// privileged: https://discord.com/developers/docs/events/gateway#gateway-intents
const intents = discordgo.IntentsGuilds | discordgo.IntentsGuildMessages | discordgo.IntentsDirectMessages | discordgo.IntentMessageContent

// Close codes: https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes
const (
	closeBadToken     = 4004
	closeBadSequence  = 4007
	closeTimedOut     = 4009
	closeBadShard     = 4010
	closeMoreShards   = 4011
	closeBadIntents   = 4014
	closedWithoutCode = 0
)

// link keeps one shard connected, through the library's session. That begins a
// session of the gateway, resumes it, and beats its heart; when to connect
// again is decided here, since the library would go on for ever with a token
// that was rejected.
type link struct {
	*Channel
	shard  shard
	events *queue
	gate   *rate.Limiter // of new sessions
	status *status
	log    *slog.Logger
}

// run connects again and again until ctx ends or connecting has no sense.
func (l *link) run(ctx context.Context) error {
	retry := newRetry(l.log)
	var s *connection
	for {
		if s == nil {
			if err := l.gate.Wait(ctx); err != nil {
				return nil
			}
			s = l.newConnection(ctx)
		}
		err := s.open(ctx)
		if err == nil {
			retry.over("connected to Discord again")
			l.status.set(l.shard.id, true, "")
			err = s.wait(ctx)
		}
		if ctx.Err() != nil {
			s.close()
			return nil
		}
		if final := finalError(err); final != nil {
			s.close()
			return final
		}
		lost := endsSession(err)
		err = explain(err)
		if refused(err).status == http.StatusUnauthorized {
			s.close()
			return errRejected
		}
		l.status.set(l.shard.id, false, err.Error())
		if s.refused.Load() || lost { // a session that can't be resumed
			s.close()
			s = nil
		}
		if retry.after(ctx, "the connection to Discord is gone, connecting again", err) != nil {
			s.close()
			return nil
		}
	}
}

// finalError tells the ends that connecting again can't mend.
func finalError(err error) error {
	switch closeCode(err) {
	case closeBadToken:
		return errRejected
	case closeBadIntents:
		return errNoContent
	case closeBadShard:
		return errShard
	case closeMoreShards:
		return errReshard
	}
	return nil
}

// endsSession tells the ends after which Discord wants a new session.
func endsSession(err error) bool {
	code := closeCode(err)
	return code == closeBadSequence || code == closeTimedOut
}

// closeCode is what Discord ended a connection with.
func closeCode(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return closed.Code
	}
	return closedWithoutCode
}

// connection is one session of the library, which can be opened again after it
// was cut, and then resumes.
type connection struct {
	session *discordgo.Session
	heard   atomic.Bool   // events came since it was opened
	refused atomic.Bool   // Discord did not begin or resume a session
	cut     chan struct{} // the connection has ended

	mu   sync.Mutex
	conn net.Conn // under the websocket
}

// newConnection makes a session whose handlers only queue.
func (l *link) newConnection(ctx context.Context) *connection {
	c := &connection{session: l.librarySession(ctx), cut: make(chan struct{}, 1)}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	c.session.Dialer = &websocket.Dialer{
		Proxy:            http.ProxyFromEnvironment,
		HandshakeTimeout: requestTimeout,
		NetDialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.conn = &watched{conn}
			return c.conn, nil
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
		case c.cut <- struct{}{}:
		default:
		}
	})
	return c
}

// librarySession is a session as the adapter wants it.
func (l *link) librarySession(ctx context.Context) *discordgo.Session {
	s, _ := discordgo.New("Bot " + l.Token) // its error is for a time when it logged in
	s.Client = &http.Client{Transport: bound{l.transport, ctx}, CheckRedirect: neverRedirect}
	s.SyncEvents = true // else a goroutine each, and no order
	s.StateEnabled = false
	s.Compress = false
	s.ShouldReconnectOnError = false
	s.LogLevel = silent
	s.Identify.Intents = intents
	s.ShardID, s.ShardCount = l.shard.id, l.shard.of
	return s
}

// open begins or resumes a session. While Discord says nothing of a session, an
// opcode 9 was the answer: see refuse.
func (c *connection) open(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.drop)()
	c.heard.Store(false)
	select {
	case <-c.cut:
	default:
	}
	if err := c.session.Open(); err != nil {
		return err
	}
	if c.refused.Load() {
		return errRefused
	}
	return nil
}

var (
	errRefused = errors.New("the session was refused")
	errCut     = errors.New("the connection was cut")
)

// refuse ends a connection on which Discord has said that the session can't go
// on. The library would begin a new one on it and tell Discord of events of the
// old one.
func (c *connection) refuse() {
	c.refused.Store(true)
	c.drop()
}

// drop cuts the connection without a goodbye.
func (c *connection) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
	}
}

// wait returns when the connection has ended, or ctx has.
func (c *connection) wait(ctx context.Context) error {
	select {
	case <-c.cut:
		return errCut
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close says goodbye, which ends the session.
func (c *connection) close() {
	if c != nil {
		c.session.Close()
	}
}

// silence is how long Discord's gateway may say nothing: it answers every
// heartbeat, which is due after 41 s. https://discord.com/developers/docs/events/gateway#sending-heartbeats
const silence = 100 * time.Second

// watched is a connection whose reads fail when the other side is silent.
type watched struct{ net.Conn }

func (w *watched) Read(p []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return w.Conn.Read(p)
}
