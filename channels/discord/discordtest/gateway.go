package discordtest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// Opcodes: https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opPresence       = 3
	opVoice          = 4
	opResume         = 6
	opReconnect      = 7
	opMembers        = 8
	opInvalidSession = 9
	opHello          = 10
	opHeartbeatAck   = 11
)

// What a client may send: bytes in a payload, and payloads in a minute.
// https://discord.com/developers/docs/events/gateway#sending-events
// https://discord.com/developers/docs/events/gateway#rate-limiting
const (
	maxPayload  = 4096
	maxInMinute = 120
)

// Close is how the server closes a connection: a code and its text.
// https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes
type Close struct {
	Code   int
	Reason string
}

// The codes that Discord closes gateway connections with.
var (
	UnknownError       = Close{4000, "Unknown error."}
	UnknownOpcode      = Close{4001, "Unknown opcode."}
	DecodeError        = Close{4002, "Error while decoding payload."}
	NotAuthenticated   = Close{4003, "Not authenticated."}
	AuthFailed         = Close{4004, "Authentication failed."}
	AlreadyIdentified  = Close{4005, "Already authenticated."}
	InvalidSeq         = Close{4007, "Invalid seq."}
	GatewayRateLimited = Close{4008, "Rate limited."}
	SessionTimedOut    = Close{4009, "Session timed out."}
	InvalidShard       = Close{4010, "Invalid shard."}
	ShardingRequired   = Close{4011, "Sharding required."}
	InvalidVersion     = Close{4012, "Invalid API version."}
	InvalidIntents     = Close{4013, "Invalid intent(s)."}
	DisallowedIntents  = Close{4014, "Disallowed intent(s)."}
)

// serveGateway serves a client from HELLO to the end of the connection.
func (s *Server) serveGateway(w http.ResponseWriter, r *http.Request) {
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	c := &socket{ws: ws, signal: make(chan struct{}, 1), gone: make(chan struct{})}
	done := make(chan struct{})
	go func() { c.pump(); close(done) }()
	s.greetClient(c, r)
	s.detach(c, s.listen(c))
	close(c.gone)
	<-done
}

// greetClient checks the query and sends HELLO, or closes the connection.
func (s *Server) greetClient(c *socket, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Connections++
	s.sockets[c] = true
	s.broadcast()
	query := r.URL.Query()
	if query.Get("compress") != "" {
		s.violate("gateway: compress=%s is not spoken here; connect without it", query.Get("compress"))
	}
	if v := query.Get("v"); v != "9" && v != "10" {
		s.violate("gateway: version %q, want 9 or 10", v)
		c.close(InvalidVersion)
		return
	}
	if e := query.Get("encoding"); e != "json" && e != "" {
		s.violate("gateway: encoding %q, want json", e)
		c.close(DecodeError)
		return
	}
	if len(s.greet) > 0 {
		c.close(s.greet[0])
		s.greet = s.greet[1:]
		return
	}
	c.writeOp(opHello, map[string]any{"heartbeat_interval": s.config.HeartbeatInterval.Milliseconds(), "_trace": []string{}})
	if s.greeting != "" {
		c.write([]byte(s.greeting))
		s.greeting = ""
	}
}

// listen reads the client's payloads until the connection ends.
func (s *Server) listen(c *socket) error {
	c.ws.SetReadLimit(maxPayload * 4)
	s.expectHeartbeat(c)
	for {
		_, raw, err := c.ws.ReadMessage()
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			s.mu.Lock()
			s.violate("gateway: no heartbeat in two intervals of %v", s.config.HeartbeatInterval)
			s.drop(c.session)
			s.mu.Unlock()
			c.close(SessionTimedOut)
		}
		if err != nil {
			return err
		}
		s.receive(c, raw)
	}
}

// expectHeartbeat gives the client two intervals for the next one.
func (s *Server) expectHeartbeat(c *socket) {
	c.ws.SetReadDeadline(time.Now().Add(2 * s.config.HeartbeatInterval))
}

// payload is a message of a client to the gateway.
type payload struct {
	Op   *int            `json:"op"`
	Data json.RawMessage `json:"d"`
}

func (s *Server) receive(c *socket, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.broadcast()
	if c.ending() {
		return
	}
	if now := s.now(); now.Sub(c.minute) >= time.Minute {
		c.minute, c.heard = now, 0
	}
	if c.heard++; c.heard > maxInMinute {
		s.closeBadly(c, GatewayRateLimited, "more than %d payloads in a minute", maxInMinute)
		return
	}
	var p payload
	if err := json.Unmarshal(raw, &p); err != nil || p.Op == nil || len(raw) > maxPayload {
		s.closeBadly(c, DecodeError, "payload %.100q of %d bytes (at most %d): %v", raw, len(raw), maxPayload, err)
		return
	}
	switch op := *p.Op; {
	case op == opHeartbeat:
		s.heartbeat(c, p.Data)
	case op == opIdentify:
		s.identify(c, p.Data)
	case op == opResume:
		s.resume(c, p.Data)
	case c.session == nil:
		s.closeBadly(c, NotAuthenticated, "opcode %d before IDENTIFY", op)
	case op == opPresence || op == opVoice || op == opMembers:
	default:
		s.closeBadly(c, UnknownOpcode, "unknown opcode %d", op)
	}
}

// closeBadly closes the connection because of a mistake of the client.
func (s *Server) closeBadly(c *socket, with Close, format string, args ...any) {
	s.violate("gateway: closed with %d: "+format, append([]any{with.Code}, args...)...)
	s.drop(c.session)
	c.close(with)
}

func (s *Server) heartbeat(c *socket, data json.RawMessage) {
	s.counts.Heartbeats++
	var seq *int64
	if err := json.Unmarshal(data, &seq); err != nil {
		s.closeBadly(c, DecodeError, "heartbeat of %s, want a sequence number or null", data)
		return
	}
	if seq != nil && c.session != nil {
		if *seq > c.session.seq { // perhaps of the session before, which was invalidated a moment ago: no fault of the client's
			s.drop(c.session)
			c.close(InvalidSeq)
			return
		}
		c.session.acknowledge(*seq)
	}
	s.expectHeartbeat(c)
	if !s.deaf {
		c.writeOp(opHeartbeatAck, nil)
	}
}

// detach is called when the connection has ended. A client that closed first,
// with 1000 or 1001, has ended its session with it.
// https://discord.com/developers/docs/events/gateway#initiating-a-disconnect
func (s *Server) detach(c *socket, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets, c)
	x := c.session
	if x != nil && x.conn == c {
		x.conn, x.detached = nil, s.now()
		if !c.ending() && websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
			s.drop(x)
		}
	}
	s.broadcast()
}

// drop ends a session, which can then not be resumed.
func (s *Server) drop(x *session) {
	if x != nil {
		delete(s.sessions, x.id)
	}
}

func (s *Server) gatewayURL() string {
	return "ws" + strings.TrimPrefix(s.URL, "http")
}
