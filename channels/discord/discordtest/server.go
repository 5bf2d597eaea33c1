// Package discordtest is a Discord server for tests: the real REST API and
// the real gateway over HTTP and websockets, in memory, as strict as Discord.
//
// A test creates people and places (Person, Guild, Channel, Thread, DM), has people
// write (Say) or use commands (Slash, Press), and reads what the bot sent (SentTo,
// Answers). It can make Discord fail: Fail, Refuse, RateLimit, DropConnections,
// InvalidateSessions, AskReconnect and others. Violations returns the requests of a
// client that Discord would refuse as malformed.
package discordtest

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Token is the token of the only bot that the server knows.
const Token = "OTAwMDAwMDAwMDAwMDAwMDAx.discordtest.token-not-a-secret"

// ApplicationID is the application of the bot. It differs from the bot's own
// id, as it does for applications from before 2016.
const ApplicationID = "900000000000000002"

// Bot is the account of the bot.
var Bot = User{ID: "900000000000000001", Username: "parley", Discriminator: "0", Bot: true}

// Config sets how the server differs from a usual Discord, which is the zero value.
type Config struct {
	Addr              string           // to listen on; default "127.0.0.1:0"
	HeartbeatInterval time.Duration    // told in HELLO; default 41.25 s
	Clock             func() time.Time // for message times and the deadlines of interactions; default time.Now
	Shards            int              // recommended by /gateway/bot; default 1
	MaxConcurrency    int              // IDENTIFYs in 5 s by shard id modulo it, beyond which sessions are refused; default 1 and not enforced
	// WithoutMessageContent leaves the privileged Message Content intent
	// switched off for the application.
	WithoutMessageContent bool
	// Foreign makes it a server that others wrote for Discord's clients. It
	// lists messages oldest first, gives no code with a 404, and answers 50013
	// with status 400.
	Foreign bool
}

func (c Config) withDefaults() Config {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.HeartbeatInterval == 0 {
		c.HeartbeatInterval = 41250 * time.Millisecond
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Shards == 0 {
		c.Shards = 1
	}
	return c
}

// Server is a Discord. All methods may be called from any goroutine.
type Server struct {
	URL string // for the adapter's api_url

	config   Config
	http     *http.Server
	routes   *http.ServeMux
	upgrader websocket.Upgrader

	mu         sync.Mutex
	changed    *sync.Cond // on mu, whenever anything that a test waits for changed
	changes    int        // counts the broadcasts
	advanced   time.Duration
	lastID     uint64
	violations []string

	users    map[string]*User
	guilds   map[string]*guild
	order    []string // ids of the guilds, in the order in which the bot joined
	channels map[string]*channel
	dms      map[string]string // user -> channel
	messages map[string]*Message
	sent     []*Message // everything that the bot sent, in order
	nonces   map[string]nonceUse
	uploads  map[string]File // by path on the CDN

	commands     map[string][]Command // by guild; "" is global
	interactions map[string]*interaction
	tokens       map[string]*interaction

	calls    map[string]int
	log      []Call
	typing   map[string]int
	failures map[string][]Verdict // by route, consumed one a request
	buckets  map[string]*bucket
	limits   map[string]limit // by channel or route
	global   bucket
	before   func(Message) Verdict
	after    func(Message) Verdict

	sessions   map[string]*session
	sockets    map[*socket]bool
	identifies map[int]time.Time // the last, by rate limit key
	deaf       bool              // heartbeats are not answered
	greet      []Close           // for connections to come
	greeting   string            // a payload for the connection to come, after HELLO; "": none
	noResume   *Close            // ends every RESUME to come
	counts     Counts
}

// Start serves until Close.
func Start(c Config) (*Server, error) {
	c = c.withDefaults()
	l, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, fmt.Errorf("discordtest: %w", err)
	}
	s := &Server{
		URL:          "http://" + l.Addr().String(),
		config:       c,
		users:        map[string]*User{Bot.ID: &Bot},
		guilds:       map[string]*guild{},
		channels:     map[string]*channel{},
		dms:          map[string]string{},
		messages:     map[string]*Message{},
		nonces:       map[string]nonceUse{},
		uploads:      map[string]File{},
		commands:     map[string][]Command{},
		interactions: map[string]*interaction{},
		tokens:       map[string]*interaction{},
		calls:        map[string]int{},
		typing:       map[string]int{},
		failures:     map[string][]Verdict{},
		buckets:      map[string]*bucket{},
		limits:       map[string]limit{},
		sessions:     map[string]*session{},
		sockets:      map[*socket]bool{},
		identifies:   map[int]time.Time{},
	}
	s.changed = sync.NewCond(&s.mu)
	s.routes = s.newRoutes()
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve)}
	go s.http.Serve(l)
	return s, nil
}

// Close stops the server and drops its connections.
func (s *Server) Close() {
	s.http.Close()
	s.DropConnections()
}

// TB is what New needs of a *testing.T.
type TB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(func())
}

// New starts a usual server on a free loopback port for as long as the test runs.
func New(t TB) *Server {
	t.Helper()
	return NewWith(t, Config{})
}

// NewWith starts a server for as long as the test runs.
func NewWith(t TB, c Config) *Server {
	t.Helper()
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Advance moves the server's clock forward: interactions expire, nonces are
// forgotten, detached sessions end and the rate limits of routes are reset.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanced += d
	s.broadcast()
}

func (s *Server) now() time.Time { return s.config.Clock().Add(s.advanced) }

// broadcast tells those who wait that something changed.
func (s *Server) broadcast() {
	s.changes++
	s.changed.Broadcast()
}

// violate records that a client sent what Discord calls malformed.
func (s *Server) violate(format string, args ...any) {
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

// Violations describes the malformed requests and payloads so far. A correct client
// sends none, however badly the server behaves.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.violations...)
}
