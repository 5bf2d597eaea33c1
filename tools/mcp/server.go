package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"parley/conversation"
	"parley/conversation/toollists"
	"parley/plaintext"
)

const (
	// longestPause is the longest wait before a server that fails is started again.
	longestPause = time.Minute
	// steady is how long a connection must have lasted to count as no failure.
	steady = time.Minute
	// patience is the longest pause that a call waits for. Where it is longer, the call fails
	// at once.
	patience = 5 * time.Second
	// betweenLists is the shortest time between two listings of a server whose tools change.
	betweenLists = time.Second
	// pingTimeout is how long a server may take to show that it is alive after a call that
	// took too long.
	pingTimeout = 5 * time.Second
)

var errClosing = errors.New("the gateway is stopping")

// server is a configured server, with its connection while it has one.
type server struct {
	name    string
	config  Config
	options Options
	guard   *Guard
	log     *slog.Logger
	secrets *plaintext.Redactor // all of its environment and headers, hidden in failures
	named   *plaintext.Redactor // those that are named like secrets, hidden in whatever it says
	lists   *toollists.Lists
	ctx     context.Context // ends with the gateway
	asked   chan struct{}   // closed once the server's tools are known, or its first attempt has failed
	settle  sync.Once       // closes asked

	mu      sync.Mutex
	conn    *connection // nil while there is none
	attempt *attempt    // the attempt to connect that is under way; nil: none
	pauses  *backoff.ExponentialBackOff
	retryAt time.Time // earliest time of the next attempt
	failure string    // why the latest attempt or connection failed; "" once it is ready again
	last    string    // the latest failure, which stays when the server is ready again
	lastAt  time.Time // when the latest failure happened
	since   time.Time // when the state that status returns last changed
	starts  int
	known   *listing // what the server offers; nil: not known yet
	leftOut []string
	offered int
	calls   []*call          // calls under way
	held    map[string]*call // calls that wait for an answer of people, by key
	move    chan struct{}    // closed when a call or a question begins or ends

	refusals rate.Sometimes // logs questions that are not asked
}

// attempt is a connection that is being opened.
type attempt struct {
	done chan struct{} // closed when conn or err is set
	conn *connection
	err  error
}

// connection is an open connection to a server.
type connection struct {
	session *sdk.ClientSession
	process *process // the server's process; nil for a server at a URL
	changed chan struct{}
	since   time.Time
	done    chan struct{} // closed when the connection has ended
	used    bool          // a call has used the connection
	end     sync.Once

	unassigned int // questions of the server that no call is assigned to yet; server.mu guards it
}

func newServer(ctx context.Context, name string, c Config, guard *Guard, o Options) *server {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = time.Second, longestPause
	all, named := c.secrets()
	return &server{
		secrets: plaintext.NewRedactor(all...), named: plaintext.NewRedactor(named...), name: name, config: c, options: o, guard: guard, log: o.Log.With("server", name), lists: o.Lists, ctx: ctx, pauses: pauses, since: time.Now(),
		held: map[string]*call{}, move: make(chan struct{}), asked: make(chan struct{}),
		refusals: rate.Sometimes{First: 3, Interval: time.Minute},
	}
}

// load offers what the server listed when it ran last with these settings.
func (s *server) load(ctx context.Context) error {
	if s.lists == nil {
		return nil
	}
	stored, err := s.lists.Of(ctx, s.name, s.config.settings())
	if conversation.IsDamaged(err) { // the server is asked again
		s.log.Error("stored list of tools unreadable", "error", err)
		return nil
	}
	if err != nil || stored == nil {
		return err
	}
	known := &listing{}
	if err := json.Unmarshal(stored, known); err != nil {
		s.log.Warn("stored list of tools unreadable", "error", err)
		return nil
	}
	s.offer(known)
	s.answered()
	return nil
}

// answered notes that the server's tools are known, or that they won't be for now.
func (s *server) answered() { s.settle.Do(func() { close(s.asked) }) }

// keep keeps an eager server running until ctx ends. It starts any other server only to learn its
// tools.
func (s *server) keep(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		isKnown := s.known != nil
		s.mu.Unlock()
		if isKnown && !s.config.Eager {
			return
		}
		conn, err := s.connect(ctx)
		wait := time.Duration(0)
		switch {
		case err != nil:
			s.mu.Lock()
			wait = time.Until(s.retryAt)
			s.mu.Unlock()
		case s.config.Eager:
			select {
			case <-conn.done:
			case <-ctx.Done():
			}
		default:
			s.rest(conn)
		}
		pause(ctx, wait)
	}
}

// rest ends a connection that was opened for the list alone.
func (s *server) rest(conn *connection) {
	s.mu.Lock()
	unused := s.conn == conn && !conn.used
	if unused {
		s.conn, s.since = nil, time.Now()
	}
	s.mu.Unlock()
	if unused {
		conn.close()
	}
}

func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// connect returns the connection. It opens one if there is none, for all callers together,
// and returns when that is done or ctx ends.
func (s *server) connect(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	if s.conn == nil && s.attempt == nil {
		if wait := time.Until(s.retryAt); wait > 0 {
			failure := s.failure
			s.mu.Unlock()
			if wait > patience {
				return nil, fmt.Errorf("the server %s has failed and is tried again in %s: %s", s.name, wait.Round(time.Second), failure)
			}
			if pause(ctx, wait); ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return s.connect(ctx)
		}
	}
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return nil, errClosing
	}
	if conn := s.conn; conn != nil {
		s.mu.Unlock()
		return conn, nil
	}
	if s.attempt == nil {
		s.attempt = &attempt{done: make(chan struct{})}
		s.since = time.Now()
		s.starts++
		go s.open(s.attempt)
	}
	a := s.attempt
	s.mu.Unlock()
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// use returns the connection for a call. From then on it is not ended for being unused.
func (s *server) use(ctx context.Context) (*connection, error) {
	for {
		conn, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		if s.conn == conn {
			conn.used = true
			if c, is := ctx.Value(thisCall{}).(*call); is {
				c.conn = conn
			}
			s.mu.Unlock()
			return conn, nil
		}
		s.mu.Unlock() // it has ended meanwhile, for example by rest
	}
}

// open carries out an attempt.
func (s *server) open(a *attempt) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.options.StartTimeout, fmt.Errorf("it did not answer within %s", s.options.StartTimeout))
	defer cancel()
	conn, err := s.dial(ctx)
	var known *listing
	if err == nil {
		if known, err = s.list(ctx, conn.session); err != nil {
			err = s.hidden(err)
			conn.close()
		}
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		s.offer(known)
	}
	s.mu.Lock()
	before, isNew := s.failure, false
	s.attempt, s.since = nil, time.Now()
	if err == nil && s.ctx.Err() != nil {
		err = errClosing
		defer conn.close()
	}
	if err == nil {
		s.conn, s.failure = conn, ""
		a.conn = conn
	} else {
		s.failed(err.Error())
		isNew = s.failure != before
		a.err = fmt.Errorf("the server %s can't be reached: %w", s.name, err)
	}
	s.mu.Unlock()
	close(a.done)
	s.answered()
	if err != nil {
		if isNew && !errors.Is(err, errClosing) && s.ctx.Err() == nil { // a server may be away for days
			s.log.Warn("MCP server failed", "error", err)
		}
		return
	}
	s.log.Info("MCP server ready", "tools", len(known.Tools))
	go s.watch(conn)
}

// failed notes why there is no connection, and until when none is opened. The caller holds mu.
func (s *server) failed(why string) {
	s.failure = plaintext.ShortLine(why, 500)
	s.last, s.lastAt = s.failure, time.Now()
	s.retryAt = time.Now().Add(s.pauses.NextBackOff())
}

// dial opens a connection.
func (s *server) dial(ctx context.Context) (*connection, error) {
	conn := &connection{changed: make(chan struct{}, 1), since: time.Now(), done: make(chan struct{})}
	client := sdk.NewClient(&sdk.Implementation{Name: "parley", Version: cmp.Or(s.options.Version, "dev")}, &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}, // see inputNeeded
		ElicitationHandler: func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return s.elicit(ctx, conn, r.Params)
		},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case conn.changed <- struct{}{}:
			default: // it will be listed anyway
			}
		},
	})
	client.AddSendingMiddleware(uncached)
	var transport sdk.Transport
	if s.config.Command != "" {
		p, err := start(s.config, s.options.Getenv, s.guard)
		if err != nil {
			return nil, err
		}
		conn.process = p
		transport = &moderated{&sdk.IOTransport{Reader: newLines(p.stdout), Writer: p.stdin}, conn.changed}
	} else {
		transport = webTransport(s.config)
	}
	type opened struct {
		session *sdk.ClientSession
		err     error
	}
	result := make(chan opened, 1)
	go func() { // a write to a server that reads nothing does not heed ctx
		session, err := client.Connect(ctx, transport, nil)
		result <- opened{session, s.hidden(err)}
	}()
	var o opened
	select {
	case o = <-result:
	case <-ctx.Done():
		o.err = context.Cause(ctx)
	}
	if o.err != nil {
		if conn.process != nil {
			conn.process.Close()
			o.err = s.explain(conn.process, o.err)
		}
		return nil, o.err
	}
	conn.session = o.session
	go func() {
		_ = conn.session.Wait() // the process or the call has the reason
		close(conn.done)
	}()
	return conn, nil
}

// explain adds to the error of a connection how its process ended, and what it said last, without secrets.
func (s *server) explain(p *process, err error) error {
	if p.hasEnded() && p.err != nil {
		err = fmt.Errorf("%w (the program ended: %w)", err, p.err)
	}
	if said := p.said.lastLine(); said != "" {
		err = fmt.Errorf("%w; it wrote: %s", err, plaintext.ShortLine(s.secrets.Hide(said), 200))
	}
	return s.hidden(err)
}

// close ends the connection, and the program at its other end.
func (c *connection) close() {
	c.end.Do(func() {
		closed := make(chan struct{})
		if c.process != nil {
			c.process.Close()
		}
		go func() {
			_ = c.session.Close() // it may be closed already
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(closeGrace):
		}
	})
}

// watch lists the tools again when they have changed, until the connection ends.
func (s *server) watch(conn *connection) {
	for {
		select {
		case <-conn.done:
			s.ended(conn)
			return
		case <-conn.changed:
		}
		s.listAgain(conn)
		pause(s.ctx, betweenLists)
	}
}

// listAgain lists the tools of a server that says that they have changed.
func (s *server) listAgain(conn *connection) {
	ctx, cancel := context.WithTimeout(s.ctx, s.options.StartTimeout)
	defer cancel()
	known, err := s.list(ctx, conn.session)
	if err == nil {
		s.offer(known)
		return
	}
	s.mu.Lock()
	onPurpose := s.conn != conn || s.ctx.Err() != nil // it was closed meanwhile, for example by rest
	s.mu.Unlock()
	if !onPurpose {
		s.log.Warn("tools not listed", "error", s.hidden(err))
	}
}

// ended notes that a connection has ended by itself.
func (s *server) ended(conn *connection) {
	conn.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != conn {
		return // it was closed on purpose
	}
	s.conn, s.since = nil, time.Now()
	if s.ctx.Err() != nil {
		return
	}
	if time.Since(conn.since) > steady {
		s.pauses.Reset()
	}
	err := errors.New("it has closed the connection")
	if conn.process != nil {
		err = s.explain(conn.process, err)
	}
	s.failed(err.Error())
	s.log.Warn("MCP server ended", "error", err)
}

// forgotten gives up a connection whose session the server does not know any more. That is no failure: the
// protocol has clients begin a new one.
func (s *server) forgotten(conn *connection) {
	s.mu.Lock()
	if s.conn == conn {
		s.conn, s.since = nil, time.Now()
	}
	s.mu.Unlock()
	conn.close()
}

// close ends the server for good: the context of the servers has ended.
func (s *server) close() {
	s.mu.Lock()
	conn, a := s.conn, s.attempt
	s.conn = nil
	s.mu.Unlock()
	if a != nil {
		<-a.done
	}
	if conn != nil {
		conn.close()
	}
}

// offer offers the listed tools to the model, and stores the list for the next start.
func (s *server) offer(known *listing) {
	offered, leftOut := s.toolsOf(known)
	for _, name := range s.options.Offer(s.name, offered) {
		leftOut = append(leftOut, shownName(name)+": another tool has this name")
	}
	s.mu.Lock()
	before := s.known
	s.known, s.offered, s.leftOut = known, len(offered), leftOut
	s.mu.Unlock()
	for _, reason := range leftOut {
		s.log.Warn("tool left out", "reason", plaintext.ShortLine(reason, 200))
	}
	text, err := json.Marshal(known)
	if err != nil || s.lists == nil {
		return
	}
	if before != nil {
		if same, err := json.Marshal(before); err == nil && slices.Equal(same, text) {
			return
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, pingTimeout)
	defer cancel()
	if err := s.lists.Store(ctx, s.name, s.config.settings(), text); err != nil && s.ctx.Err() == nil {
		s.log.Warn("list of tools not stored", "error", err)
	}
}

// status returns the state of the server.
func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := Status{
		Name: s.name, State: Idle, Error: s.failure, Since: s.since, Tools: s.offered, Starts: s.starts,
		LeftOut: s.leftOut, Eager: s.config.Eager, Endpoint: cmp.Or(s.config.Command, withoutSecrets(s.config.URL)),
		LastError: s.last, LastErrorAt: s.lastAt,
	}
	switch {
	case s.conn != nil:
		is.State = Ready
	case s.attempt != nil:
		is.State = Starting
	case s.failure != "":
		is.State = Failed
	}
	return is
}
