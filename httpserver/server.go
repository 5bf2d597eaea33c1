// Package httpserver is the gateway's HTTP server. It decides who may come in, under
// which host names, how often, and with how large a body. The other packages add
// their routes to it.
package httpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

// Deps holds the configuration of a server and what it depends on.
type Deps struct {
	Config
	TokenFile *TokenFile // holds the token while Config.Token is ""; nil with AuthNone: keys are made for this process alone
	SignIns   SignIns    // nil only with AuthNone

	Limits  Limits
	Folder  string                                             // for large bodies while they are read; "": the system's for temporary files
	Ready   ReadyFunc                                          // for /readyz; nil: there is none
	Observe func(route string, status int, took time.Duration) // told of every answer, route is its pattern, "" = none; nil: nobody asks
	Now     func() time.Time                                   // nil: time.Now
	Log     *slog.Logger
}

// Server listens as soon as New returns, and serves in Run.
type Server struct {
	cfg      Config
	limits   Limits
	observe  func(route string, status int, took time.Duration)
	log      *slog.Logger
	listener net.Listener
	conns    connections
	large    *largeBodies
	mux      *http.ServeMux
	nowhere  http.Handler // what answers where there is no route

	names     map[string]bool // of this server; nil: whatever the client says
	origins   *http.CrossOriginProtection
	file      *TokenFile // nil when the token can't change
	current   atomic.Pointer[keys]
	signIns   SignIns
	seen      seen
	streams   streams
	now       func() time.Time
	known     *clientLimits // clients that are signed in
	strangers *clientLimits // the others
	guesses   *guesses
	problems  []problemsUnder

	leaving atomic.Bool     // the gateway ends: connections are closed after an answer, so that no request meets a closed one
	closing context.Context // ends when no more requests are taken; streams end then
	close   context.CancelFunc
}

// New listens at the configured address, which is not "". When the address is
// taken the error is syscall.EADDRINUSE.
func New(deps Deps) (*Server, error) {
	secret, file := deps.Token, deps.TokenFile
	switch {
	case secret != "":
		file = nil
	case file != nil:
		secret = file.Token()
	case deps.Auth == AuthNone:
		secret = rand.Text()
	}
	if secret == "" || deps.SignIns == nil && deps.Auth != AuthNone {
		return nil, errors.New("http: a server that asks for a token needs one, and a place to keep who is signed in")
	}
	listener, err := net.Listen("tcp", deps.Address())
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if addr, ok := listener.Addr().(*net.TCPAddr); deps.Auth == AuthNone && (!ok || !addr.IP.IsLoopback()) {
		listener.Close()
		return nil, fmt.Errorf("http: %s is %s, which other machines reach: with auth = %q in the section [http] the server listens at an address of this machine alone",
			deps.Address(), listener.Addr(), AuthNone)
	}
	limits := deps.Limits.withDefaults()
	s := &Server{
		cfg:       deps.Config,
		limits:    limits,
		observe:   deps.Observe,
		log:       deps.Log,
		listener:  listener,
		conns:     connections{most: deps.MaxConnections},
		large:     newLargeBodies(deps.Folder),
		mux:       http.NewServeMux(),
		names:     names(deps.Config),
		origins:   origins(deps.Hosts),
		file:      file,
		signIns:   deps.SignIns,
		now:       deps.Now,
		known:     newClientLimits(limits.Known),
		strangers: newClientLimits(limits.Strangers),
		guesses:   newGuesses(limits, deps.Log),
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.current.Store(newKeys(secret))
	s.closing, s.close = context.WithCancel(context.Background())
	s.nowhere = s.guard(Public, route{}, http.HandlerFunc(s.noRoute))
	s.handleSignIn()
	s.handleHealth(deps.Ready)
	return s, nil
}

// URL returns the server's address for people on this machine, with a slash at
// its end.
func (s *Server) URL() string { return base(s.listener.Addr()) }

// ListensEverywhere returns the address that the server listens on if that is all
// addresses of the machine, such as "0.0.0.0:8787"; else "".
func (s *Server) ListensEverywhere() string {
	tcp, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return ""
	}
	host, _, _ := net.SplitHostPort(s.cfg.Address()) // the listener says [::] for 0.0.0.0 too
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// URLs returns the server's addresses: URL, and one for each of the configured
// hosts.
func (s *Server) URLs() []string {
	urls := []string{s.URL()}
	for _, host := range s.cfg.Hosts {
		if s.cfg.TrustProxy {
			urls = append(urls, "https://"+host+"/")
		} else if tcp, ok := s.listener.Addr().(*net.TCPAddr); ok {
			urls = append(urls, "http://"+net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(tcp.Port))+"/")
		}
	}
	return urls
}

// Handle adds a pattern of http.ServeMux, such as "GET /console/{$}", for those
// whom access lets in. It must be called before Run.
func (s *Server) Handle(pattern string, access Access, h http.Handler, options ...Option) {
	r := route{maxBody: DefaultMaxBody}
	for _, option := range options {
		option(&r)
	}
	s.mux.Handle(pattern, s.guard(access, r, h))
}

// Serves reports whether there is a page at a path.
func (s *Server) Serves(path string) bool {
	_, pattern := s.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	return pattern != ""
}

// NeedsToken reports whether people have to sign in.
func (s *Server) NeedsToken() bool { return !s.open() }

// open reports whether everybody on this machine may do everything.
func (s *Server) open() bool { return s.cfg.Auth == AuthNone }

// Option changes what a route accepts.
type Option func(*route)

// MaxBody lets a route accept bodies of up to n bytes instead of DefaultMaxBody.
func MaxBody(n int64) Option { return func(r *route) { r.maxBody = n } }

// KnownBy counts requests that prove themselves in another way than by signing in
// as those of known clients, for the rate limit only.
func KnownBy(proves func(*http.Request) bool) Option { return func(r *route) { r.known = proves } }

// Run serves until closing ends. Once ctx has ended, which comes first, it closes connections
// after an answer. When closing ends, it takes no more requests and ends the streams, which
// are the contexts of GET and HEAD requests. Other requests, which change something, may
// finish until hard ends.
func (s *Server) Run(ctx, closing, hard context.Context) error {
	defer context.AfterFunc(ctx, func() { s.leaving.Store(true) })()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer s.close()
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: s.limits.HeaderTimeout,
		WriteTimeout:      s.limits.WriteTimeout, // until the first write, see answer
		IdleTimeout:       s.limits.IdleTimeout,
		MaxHeaderBytes:    s.limits.HeaderBytes,
		ConnState:         s.conns.note,

		DisableGeneralOptionsHandler: true, // it would answer strangers without a limit

		BaseContext: func(net.Listener) context.Context { return hard },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	if !s.open() {
		watching.Go(func() { s.watchStreams(s.closing) })
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(s.listener, s.cfg.MaxConnections)) }()
	select {
	case err := <-served:
		return fmt.Errorf("http: %w", err)
	case <-closing.Done():
	}
	s.close()
	s.conns.closeFresh()
	if err := server.Shutdown(hard); err != nil && !errors.Is(err, context.Canceled) {
		s.log.Warn("HTTP server shutdown incomplete", "error", err)
	}
	return server.Close() // ends the requests that hard has cut short
}

// serve answers one request, even if its handler panics.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	r = s.withProblems(r)
	a := newAnswer(w, r, s.limits.WriteTimeout)
	setHeaders(a.Header())
	a.Header().Set("Connection", "close") // unless the guard knows the client: the rate of a stranger also bounds what it keeps open
	s.limitBodyTime(a, r, 0)
	_, pattern := s.mux.Handler(r)
	defer func() {
		a.extend() // for what net/http still has of the answer
		status, took := cmp.Or(a.status, http.StatusOK), time.Since(began)
		if s.observe != nil {
			s.observe(pattern, status, took)
		}
		s.log.Debug("request", "method", r.Method, "path", r.URL.Path, "status", status, "took", took)
	}()
	defer s.recovered(a, r)
	if pattern == "" {
		s.nowhere.ServeHTTP(a, r)
		return
	}
	s.mux.ServeHTTP(a, r)
}

// noRoute answers a request without a route: 404 for an unknown path, 405 for a
// method that the path does not take.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	refused := &discard{header: http.Header{}}
	s.mux.ServeHTTP(refused, r)
	if refused.status == http.StatusMethodNotAllowed {
		allow := refused.header.Get("Allow")
		w.Header().Set("Allow", allow)
		Problem(w, r, refused.status, fmt.Sprintf("%s is not possible here. Allowed: %s.", r.Method, allow))
		return
	}
	Problem(w, r, http.StatusNotFound, "There is nothing at this address.")
}
