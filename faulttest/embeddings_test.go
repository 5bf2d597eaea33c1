package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
)

// TestKilledWhileMessagesAreEmbedded kills the gateway repeatedly during a request to the embeddings server, and right
// after its answer. In the end every message has its vectors, once.
func TestKilledWhileMessagesAreEmbedded(t *testing.T) {
	t.Parallel()
	server := newVectorServer(t)
	g := gatewaytest.New(t, gatewaytest.Options{Config: fmt.Sprintf("[embeddings]\nbase_url = %q\nmodel = \"m\"\n", server.URL+"/v1")})
	storetest.Make(t, g.Database)
	store := storetest.Open(t, g.Database)
	const messages = 64 * 20
	for range messages / 4 {
		storetest.Tell(t, store, "cli:told", storetest.User("question"), storetest.Assistant("answer"), storetest.User("why?"), storetest.Assistant("because"))
	}
	for kill := range 8 {
		server.hold(kill%4, kill%2 == 0)
		g.Start()
		gatewaytest.Await(t, "the server to be asked", server.isHeld)
		g.Kill()
		server.release()
	}
	g.Start()
	gatewaytest.Await(t, "every message to have its vector", func() bool { return vectors(t, store) == messages })
	for _, table := range []string{"vectors", "vector_signs"} {
		if n := storetest.Count(t, store, `SELECT count(*) FROM `+table); n != messages {
			t.Errorf("%d %s of %d messages", n, table, messages)
		}
	}
	g.Stop()
}

func vectors(t *testing.T, store *conversation.Store) int64 {
	t.Helper()
	return storetest.Count(t, store, `SELECT count(*) FROM vectors`)
}

// vectorServer is an embeddings server that can hold its answers back.
type vectorServer struct {
	*httptest.Server

	mu     sync.Mutex
	after  int  // requests that are answered before one is held
	answer bool // that request is answered at once, and only reported
	held   chan struct{}
	goOn   context.CancelFunc
	ctx    context.Context
}

func newVectorServer(t *testing.T) *vectorServer {
	s := &vectorServer{after: -1}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		if s.goOn != nil {
			s.release() // else Close would wait for the handler for ever when the test has failed
		}
		s.Close()
	})
	return s
}

// hold makes the server hold the request that comes after a number of others, or answer it and report it as held.
func (s *vectorServer) hold(after int, answer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after, s.answer, s.held = after, answer, make(chan struct{})
	s.ctx, s.goOn = context.WithCancel(context.Background())
}

func (s *vectorServer) isHeld() bool {
	select {
	case <-s.held:
		return true
	default:
		return false
	}
}

func (s *vectorServer) release() { s.goOn() }

func (s *vectorServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Input []string `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return // the gateway was killed
	}
	s.mu.Lock()
	holds, answers, held, ctx := s.after == 0, s.answer, s.held, s.ctx
	s.after--
	s.mu.Unlock()
	if holds && !answers {
		close(held)
		<-ctx.Done()
	}
	var data []map[string]any
	for i := range request.Input {
		data = append(data, map[string]any{"index": i, "embedding": []float32{1, 2, 3}})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	if holds && answers {
		close(held)
	}
}
