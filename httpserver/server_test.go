package httpserver_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/httpserver"
	"parley/internal/waittest"
)

func TestAddressInUseIsNamedInTheError(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{})
	_, err := httpserver.New(httpserver.Deps{Config: httpserver.Config{Auth: httpserver.AuthNone, Listen: new(strings.TrimPrefix(s.url, "http://"))}})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("got %v", err)
	}
}

// A shutdown closes streams, and lets requests that change something finish.
func TestShutdownFinishesRequestsAndClosesStreams(t *testing.T) {
	t.Parallel()
	posted, finish := make(chan struct{}), make(chan struct{})
	s := start(t, httpserver.Deps{},
		route("GET /events", httpserver.Person, func(w http.ResponseWriter, r *http.Request) {
			if httpserver.OpenEvents(w).Beat() == nil {
				<-r.Context().Done()
			}
		}),
		route("POST /slow", httpserver.Program, func(w http.ResponseWriter, r *http.Request) {
			close(posted)
			select {
			case <-finish:
				io.WriteString(w, "finished")
			case <-r.Context().Done():
			}
		}))
	answer := opener(t, finish)
	s.dial("") // as browsers do, in advance
	stream := s.dial("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	begun, err := http.ReadResponse(bufio.NewReader(stream), nil)
	if err != nil {
		t.Fatal(err)
	}
	post := s.dial("POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	waittest.Receive(t, posted, "the request")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.stop()
	}()
	if said, err := io.ReadAll(begun.Body); err != nil || string(said) != ":\n\n" {
		t.Errorf("the stream ended with %q, %v", said, err)
	}
	answer()
	if said, err := io.ReadAll(post); err != nil || !strings.HasSuffix(string(said), "finished") {
		t.Errorf("the request under way was answered %q, %v", said, err)
	}
	waittest.Receive(t, ended, "the end of the server")
}

// Before the server closes, it goes on answering. Connections end with their answer, so that a
// proxy sends no request into one that is being closed.
func TestServerThatWillCloseEndsConnectionsWithTheirAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{Config: httpserver.Config{Token: token}})
	client := program(t)
	if answer := s.send(client, "GET", "/program", bearer(token)); answer.Close {
		t.Error("the connection is closed while the server goes on")
	}
	s.leave()
	deadline := time.Now().Add(waittest.Patience)
	for {
		answer := s.send(client, "GET", "/program", bearer(token))
		answer.expect(t, 200)
		if answer.Close {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection stays open")
		}
	}
	s.send(client, "GET", "/program", bearer(token)).expect(t, 200)
}

// A second signal ends all requests at once.
func TestShutdownCanBeForced(t *testing.T) {
	t.Parallel()
	posted := make(chan struct{})
	s := start(t, httpserver.Deps{}, route("POST /slow", httpserver.Program, func(_ http.ResponseWriter, r *http.Request) {
		close(posted)
		<-r.Context().Done()
	}))
	s.dial("POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	waittest.Receive(t, posted, "the request")
	s.cut()
	s.stop()
}

func TestAPanicIsAnsweredAndLoggedOnce(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{},
		route("GET /panic", httpserver.Program, func(http.ResponseWriter, *http.Request) { panic("the secret reason") }),
		route("GET /late", httpserver.Program, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half an answer")
			w.(http.Flusher).Flush()
			panic("later")
		}))
	answer := s.send(program(t), "GET", "/panic")
	answer.expect(t, 500)
	if strings.Contains(answer.body, "secret") || strings.Contains(answer.body, "goroutine") {
		t.Errorf("the client is told %s", answer.body)
	}
	_, id, _ := strings.Cut(strings.TrimSuffix(answer.body, `."}`), "under the id ")
	if id == "" || strings.Count(s.log.String(), id) != 1 || strings.Count(s.log.String(), "the secret reason") != 1 {
		t.Errorf("%q is not in the log once:\n%s", id, s.log.String())
	}
	late, err := program(t).Get(s.url + "/late")
	if err != nil {
		t.Fatal(err)
	}
	defer late.Body.Close()
	if said, err := io.ReadAll(late.Body); err == nil {
		t.Errorf("half an answer is taken for a whole one: %q", said)
	}
	s.send(program(t), "GET", "/program").expect(t, 200)
}

func TestEveryAnswerIsObserved(t *testing.T) {
	t.Parallel()
	type seen struct {
		route  string
		status int
	}
	all := make(chan seen, 10)
	s := start(t, httpserver.Deps{Observe: func(route string, status int, _ time.Duration) { all <- seen{route, status} }},
		route("GET /silent", httpserver.Program, func(http.ResponseWriter, *http.Request) {}),
		route("GET /flushed", httpserver.Program, func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }))
	for path, want := range map[string]seen{
		"/program?x=1": {"/program", 200}, "/nowhere": {"", 404}, "/silent": {"GET /silent", 200}, "/flushed": {"GET /flushed", 200},
	} {
		s.send(program(t), "GET", path)
		if got := waittest.Receive(t, all, "what was observed"); got != want {
			t.Errorf("%s: got %+v, want %+v", path, got, want)
		}
	}
}

// Headers that a handler has set before a panic are not sent with the problem.
func TestAPanicLeavesNoHeadersBehind(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{}, route("GET /panic", httpserver.Program, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Cache-Control", "max-age=31536000, immutable")
		panic("before the first byte")
	}))
	answer := s.send(program(t), "GET", "/panic")
	answer.expect(t, 500)
	if got := answer.Header.Get("Cache-Control"); got != "no-store" || answer.Header.Get("Content-Encoding") != "" {
		t.Errorf("the headers are %v", answer.Header)
	}
}

// HEAD of a stream is answered at once.
func TestAStreamToHeadEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{}, route("GET /events", httpserver.Person, func(w http.ResponseWriter, r *http.Request) {
		if httpserver.OpenEvents(w).Beat() == nil {
			<-r.Context().Done()
		}
	}))
	conn := s.dial("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\nGET /public HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	said, err := io.ReadAll(conn)
	if err != nil || strings.Count(string(said), "HTTP/1.1 200 OK") != 2 || !strings.Contains(string(said), "text/event-stream") {
		t.Errorf("got %q, %v", said, err)
	}
}

// The data of an event can't become another event.
func TestEventsArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{}, route("GET /events", httpserver.Person, func(w http.ResponseWriter, _ *http.Request) {
		_ = httpserver.OpenEvents(w).Send(
			httpserver.Event{ID: "7\nevent: x", Name: "text", Data: "one\ntwo\r\rdata: three"},
			httpserver.Event{Data: ""})
	}))
	answer := s.send(program(t), "GET", "/events")
	answer.expect(t, 200)
	if want := "id: 7event: x\nevent: text\ndata: one\ndata: twodata: three\n\ndata: \n\n"; answer.body != want {
		t.Errorf("got %q, want %q", answer.body, want)
	}
}
