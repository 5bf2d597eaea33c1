package httpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/signin"
	"parley/conversation/storetest"
	"parley/httpserver"
	"parley/internal/waittest"
)

const token = "a-token-of-the-tests"

// site is a running server with a route for each kind of access.
type site struct {
	t     *testing.T
	url   string // without a slash at its end
	log   *waittest.Buffer
	leave func() // says that the server will be shut down
	stop  func() // shuts the server down, and waits for its end
	cut   func() // cancels the remaining requests
}

// start runs a server on a free port, with further routes.
func start(t *testing.T, parts httpserver.Deps, routes ...func(*httpserver.Server)) *site {
	t.Helper()
	log := &waittest.Buffer{}
	if parts.Token == "" && parts.TokenFile == nil {
		parts.Auth = httpserver.AuthNone
	}
	if parts.SignIns == nil && parts.Auth != httpserver.AuthNone {
		parts.SignIns = signin.New(newStore(t))
	}
	if parts.Listen == nil {
		parts.Listen = new("127.0.0.1:0")
	}
	if parts.MaxConnections == 0 {
		parts.MaxConnections = httpserver.DefaultConfig().MaxConnections
	}
	if parts.Limits.GuessDelay == 0 {
		parts.Limits.GuessDelay = time.Nanosecond
	}
	parts.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := httpserver.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, access := range map[string]httpserver.Access{
		"/public": httpserver.Public, "/program": httpserver.Program, "/person": httpserver.Person,
	} {
		s.Handle(pattern, access, http.HandlerFunc(answerBody))
	}
	for _, add := range routes {
		add(s)
	}
	leaving, leave := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	hard, cut := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(leaving, ctx, hard) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := waittest.Receive(t, ended, "the end of the server"); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cut()
		stop()
		leave()
	})
	return &site{t: t, url: strings.TrimSuffix(s.URL(), "/"), log: log, leave: leave, stop: stop, cut: cut}
}

// newStore returns a store for sign-ins.
func newStore(t *testing.T) *conversation.Store {
	t.Helper()
	return storetest.New(t)
}

func route(pattern string, access httpserver.Access, h http.HandlerFunc, options ...httpserver.Option) func(*httpserver.Server) {
	return func(s *httpserver.Server) { s.Handle(pattern, access, h, options...) }
}

// answerBody answers with the request's body.
func answerBody(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		httpserver.BodyProblem(w, r, err)
		return
	}
	w.Write(body)
}

// response is an answer that was read to its end.
type response struct {
	*http.Response
	body string
}

// edit changes a request before it is sent.
type edit func(*http.Request)

func header(name, value string) edit { return func(r *http.Request) { r.Header.Set(name, value) } }
func host(name string) edit          { return func(r *http.Request) { r.Host = name } }
func bearer(token string) edit       { return header("Authorization", "Bearer "+token) }

func form(values url.Values) edit {
	return func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Body = io.NopCloser(strings.NewReader(values.Encode()))
		r.ContentLength = int64(len(values.Encode()))
	}
}

// send sends a request and follows no redirect.
func (s *site) send(client *http.Client, method, path string, edits ...edit) response {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, edit := range edits {
		edit(r)
	}
	answer, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response{answer, string(body)}
}

// browser returns a client with cookies.
func browser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := program(t)
	c.Jar = jar
	return c
}

// program returns a client without cookies.
func program(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: 2 * waittest.Patience, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// signIn signs a browser in.
func (s *site) signIn(client *http.Client, token string, edits ...edit) response {
	s.t.Helper()
	return s.send(client, "POST", "/signin", append([]edit{form(url.Values{"token": {token}, "next": {"/person"}})}, edits...)...)
}

// expect checks the status, and the format of a problem.
func (r response) expect(t *testing.T, status int) {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("%s %s: got %s %s, want %d", r.Request.Method, r.Request.URL, r.Status, r.body, status)
	}
	if r.Header.Get("Content-Type") != "application/problem+json" {
		return
	}
	var problem struct {
		Title, Detail string
		Status        int
	}
	if err := json.Unmarshal([]byte(r.body), &problem); err != nil || problem.Status != status || problem.Title == "" || problem.Detail == "" {
		t.Errorf("the problem says %s (%v)", r.body, err)
	}
}

// opener returns a function that closes a channel for which handlers wait. The end of the test calls it, too, since
// otherwise the server of a failed test would wait for its handlers for ever.
func opener(t *testing.T, gate chan struct{}) (open func()) {
	t.Helper()
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	return open
}
