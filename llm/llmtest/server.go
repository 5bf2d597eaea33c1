// Package llmtest is an OpenAI-compatible server for tests and benchmarks. It
// speaks the real wire protocol, refuses what the real server refuses, with the
// same errors, and can be made to fail in all the ways in which servers fail.
package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/llm"
)

// Call is one request that was not refused.
type Call struct {
	N           int // number of the call: 1 for the server's first
	Model       string
	Messages    []llm.Message
	Tools       []llm.Tool
	Stream      bool
	Usage       bool // the answer says its usage: it is asked for in a stream, and always said otherwise
	Temperature *float64
	MaxTokens   int // max_tokens or max_completion_tokens of the request
	Header      http.Header

	TopP           *float64
	Stop           any // a string, or a list
	Seed           *int
	ToolChoice     any
	ResponseFormat string // type of the response_format

	CacheKey string // prompt_cache_key
	Marked   []int  // indexes of the messages with cache_control
}

// LastUser returns the text of the user's last message, "" if there is none.
func (c Call) LastUser() string {
	for _, m := range slices.Backward(c.Messages) {
		if m.Role == "user" {
			return m.Content
		}
	}
	return ""
}

// Echo returns the reply of a server that was given no other: "echo: " and the last
// text of a user.
func Echo(c Call) Answer { return Answer{Text: "echo: " + c.LastUser()} }

// Server is a running server. Its methods are safe for concurrent use, and
// what they set counts from the next request on.
type Server struct {
	address string
	http    *http.Server
	closed  context.Context
	close   context.CancelFunc
	counter *llm.Counter

	mu sync.Mutex // guards what follows
	settings
	served   int
	calls    []Call
	refusals []string

	recordings []Recording
}

// settings are what a test may change while the server runs.
type settings struct {
	reply         func(Call) Answer
	hear          func(Recording) Heard
	models        []map[string]any
	contextWindow int
	key           string
	noStreamOpts  bool
	quiet         bool
}

// Start serves at an address such as "127.0.0.1:0" until Close.
func Start(address string) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{address: listener.Addr().String(), counter: llm.NewCounter("")}
	s.closed, s.close = context.WithCancel(context.Background())
	s.reply = Echo
	s.hear = func(r Recording) Heard { return Heard{Text: fmt.Sprintf("heard %d bytes", len(r.Data))} }
	s.Models("test-model")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", s.serveModels)
	mux.HandleFunc("POST /v1/chat/completions", s.serveChat)
	mux.HandleFunc("POST /v1/audio/transcriptions", s.serveTranscription)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.close()
		}
	}()
	return s, nil
}

// TB is the part of *testing.T that New needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// New serves on a free port until the test ends.
func New(t TB) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatalf("starting the fake model server: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Close drops every connection, at once.
func (s *Server) Close() {
	s.close()
	_ = s.http.Close()
}

// URL returns the base_url, with /v1.
func (s *Server) URL() string { return "http://" + s.address + "/v1" }

// Reply sets how calls are answered. The function is called from many
// goroutines at once.
func (s *Server) Reply(reply func(Call) Answer) { s.set(func(to *settings) { to.reply = reply }) }

// Script answers the first calls one by one, then as the last answer says.
func (s *Server) Script(answers ...Answer) {
	var n atomic.Int64
	s.Reply(func(Call) Answer { return answers[min(int(n.Add(1)), len(answers))-1] })
}

// Models sets the names that /models lists. They are not checked against calls.
func (s *Server) Models(names ...string) {
	list := make([]map[string]any, len(names))
	for i, name := range names {
		list[i] = map[string]any{"id": name, "object": "model", "created": 1700000000, "owned_by": "test"}
	}
	s.set(func(to *settings) { to.models = list })
}

// ContextWindow refuses lists of more tokens, and says so in /models as vLLM
// does; 0, the default, takes any.
func (s *Server) ContextWindow(tokens int) { s.set(func(to *settings) { to.contextWindow = tokens }) }

// RequireKey refuses calls without this key.
func (s *Server) RequireKey(key string) { s.set(func(to *settings) { to.key = key }) }

// NoStreamOptions refuses stream_options, as older servers do.
func (s *Server) NoStreamOptions() { s.set(func(to *settings) { to.noStreamOpts = true }) }

// Quiet stops recording calls, for long loads.
func (s *Server) Quiet() { s.set(func(to *settings) { to.quiet = true }) }

func (s *Server) set(change func(*settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.settings)
}

func (s *Server) now() settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// Calls returns the calls so far, in the order of arrival.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Served returns the number of calls so far, including those that are not recorded.
func (s *Server) Served() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Refused returns the number of requests that broke the API's rules.
func (s *Server) Refused() int { return len(s.Refusals()) }

// Refusals returns the rules that were broken.
func (s *Server) Refusals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refusals)
}

func (s *Server) serveModels(w http.ResponseWriter, r *http.Request) {
	now := s.now()
	if refused := now.checkKey(r); refused != nil {
		s.refuse(w, refused)
		return
	}
	list := make([]map[string]any, len(now.models))
	for i, model := range now.models {
		list[i] = model
		if now.contextWindow > 0 {
			list[i] = map[string]any{"id": model["id"], "object": "model", "max_model_len": now.contextWindow}
		}
	}
	body, _ := json.Marshal(map[string]any{"object": "list", "data": list}) // of strings and numbers: cannot fail
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func (s *Server) serveChat(w http.ResponseWriter, r *http.Request) {
	now := s.now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	req, refused := now.check(r, body, s.counter)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	call := s.record(req.call(r.Header))
	now.reply(call).write(s.closed, w, r, call)
}

// record numbers a call, and keeps it unless the server is quiet.
func (s *Server) record(call Call) Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	call.N = s.served
	if !s.quiet {
		s.calls = append(s.calls, call)
	}
	return call
}

func (s *Server) refuse(w http.ResponseWriter, r *refusal) {
	s.mu.Lock()
	s.refusals = append(s.refusals, r.message)
	s.mu.Unlock()
	r.write(w)
}
