package httpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"parley/httpserver"
	"parley/internal/waittest"
)

func body(text string) edit {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
}

func TestBodiesHaveALimit(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{}, route("POST /large", httpserver.Program, answerBody, httpserver.MaxBody(2<<20)))
	most := strings.Repeat("x", httpserver.DefaultMaxBody)
	s.send(program(t), "POST", "/program", body(most)).expect(t, 200)
	s.send(program(t), "POST", "/program", body(most+"x")).expect(t, 413)
	unknown := func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader(most+"x")), -1 }
	s.send(program(t), "POST", "/program", unknown).expect(t, 413)
	s.send(program(t), "POST", "/large", body(most+most)).expect(t, 200)
	s.send(program(t), "POST", "/large", body(most+most+"x")).expect(t, 413)
}

// The rest of a body that a handler has not read is not taken for the next request.
func TestUnreadBodyIsNotTakenForARequest(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{}, route("POST /closes", httpserver.Program, func(w http.ResponseWriter, r *http.Request) {
		r.Body.Close()
		httpserver.Problem(w, r, http.StatusTeapot, "That is enough.")
	}))
	const hidden = "GET /public?hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
	rest := strings.Repeat(hidden, 10<<10)
	conn := s.dial(fmt.Sprintf("POST /closes HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(rest)))
	go io.WriteString(conn, rest) // as much as the server takes
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != http.StatusTeapot {
		t.Errorf("got %v, %v", answer, err)
	}
	io.Copy(io.Discard, conn) // until the server hangs up
	if strings.Contains(s.log.String(), "path=/public") {
		t.Error("a part of the body was served")
	}
}

// dial opens a connection and writes to it as it is.
func (s *site) dial(text string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(waittest.Patience)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func TestHeadsHaveALimit(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{})
	conn := s.dial("GET /public HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 100<<10))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("got %v, %v", answer, err)
	}
}

// A client that sends a head or a body very slowly is disconnected.
func TestSlowSendersAreCutOff(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{Limits: httpserver.Limits{HeaderTimeout: time.Second, BodyTimeout: time.Second}},
		route("POST /small", httpserver.Program, answerBody, httpserver.MaxBody(10)))
	if _, err := io.ReadAll(s.dial("GET /public HTTP/1.1\r\n")); err != nil {
		t.Errorf("a slow head is not cut off: %v", err)
	}
	said, err := io.ReadAll(s.dial("POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"))
	if err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 408 ") {
		t.Errorf("a slow body gets %q, %v", said, err)
	}
}

// A refused client that sends its body very slowly is disconnected, too.
func TestSlowSendersAreCutOffWhereTheyAreRefused(t *testing.T) {
	t.Parallel()
	parts := configWithToken()
	parts.Limits.BodyTimeout = time.Second
	s := start(t, parts)
	for path, status := range map[string]string{"/program": "401", "/nowhere": "404", "//public": "307"} {
		said, err := io.ReadAll(s.dial("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"))
		if err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 "+status+" ") {
			t.Errorf("a slow body to %s gets %q, %v", path, said, err)
		}
	}
}

// The timeout for a body does not apply to the handler: an answer may take minutes.
func TestALongAnswerOutlastsTheTimeForTheBody(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := start(t, httpserver.Deps{Limits: httpserver.Limits{BodyTimeout: time.Second, WriteTimeout: time.Second}},
		route("POST /slow", httpserver.Program, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				ended <- err
				return
			}
			select {
			case <-r.Context().Done():
				ended <- fmt.Errorf("the request ended: %w", context.Cause(r.Context()))
			case <-time.After(2 * time.Second): // longer than either part may take
				ended <- nil
			}
			fmt.Fprint(w, "done")
		}, httpserver.MaxBody(10)))
	answer := s.send(program(t), "POST", "/slow", body("x"))
	if err := waittest.Receive(t, ended, "the end of the handler"); err != nil || answer.body != "done" {
		t.Errorf("got %q, %v", answer.body, err)
	}
}

// A client that stops reading a stream is disconnected.
func TestSlowReadersAreCutOff(t *testing.T) {
	t.Parallel()
	cut := make(chan error, 1)
	s := start(t, httpserver.Deps{Limits: httpserver.Limits{WriteTimeout: 50 * time.Millisecond}},
		route("GET /events", httpserver.Person, func(w http.ResponseWriter, r *http.Request) {
			events := httpserver.OpenEvents(w)
			for {
				if err := events.Send(httpserver.Event{Data: strings.Repeat("x", 64<<10)}); err != nil {
					cut <- err
					return
				}
			}
		}))
	s.dial("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case <-cut:
	case <-time.After(waittest.Patience):
		t.Fatal("the stream goes on although nobody reads it")
	}
}

// A client that reads slowly, but goes on reading, gets the whole answer.
func TestSlowClientGetsALongAnswer(t *testing.T) {
	t.Parallel()
	const long = 48 << 20 // more than any buffer on the way
	s := start(t, httpserver.Deps{Limits: httpserver.Limits{WriteTimeout: 4 * time.Second}},
		route("GET /long", httpserver.Program, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(long))
			w.Write(make([]byte, long))
		}))
	answer, err := http.ReadResponse(bufio.NewReader(s.dial("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	line := rate.NewLimiter(rate.Every(100*time.Millisecond), 1) // MiB: all of it takes longer than one write may
	for read := int64(0); read < long; {
		n, err := io.CopyN(io.Discard, answer.Body, 1<<20)
		if read += n; err != nil {
			t.Fatalf("cut off after %d of %d bytes: %v", read, int64(long), err)
		}
		if err := line.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// An answer that was written before long work is still sent after it.
func TestAnAnswerBeforeLongWorkIsNotLost(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{Limits: httpserver.Limits{WriteTimeout: time.Second}},
		route("POST /early", httpserver.Program, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "accepted")
			select {
			case <-r.Context().Done():
			case <-time.After(2 * time.Second): // longer than a write may take
			}
		}))
	if got := s.send(program(t), "POST", "/early"); got.body != "accepted" {
		t.Errorf("got %q", got.body)
	}
}

func TestConnectionsHaveALimit(t *testing.T) {
	t.Parallel()
	parts := httpserver.Deps{}
	parts.MaxConnections = 2
	asked, end := make(chan struct{}, 2), make(chan struct{})
	s := start(t, parts, route("GET /wait", httpserver.Program, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-end
	}))
	answer := opener(t, end)
	for range 2 {
		s.dial("GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		waittest.Receive(t, asked, "the request")
	}
	third := s.dial("GET /public HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	answered := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(third)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a connection too many was served (%v)", err)
	case <-time.After(50 * time.Millisecond):
	}
	answer()
	if err := waittest.Receive(t, answered, "the answer"); err != nil {
		t.Error(err)
	}
}

// Idle connections do not use up the limit of connections.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	parts := httpserver.Deps{Limits: httpserver.Limits{HeaderTimeout: time.Hour}}
	parts.MaxConnections = 4
	s := start(t, parts)
	for i := range 20 {
		s.dial([]string{"", "GET /public HTTP/1.1\r\nHo"}[i%2])
	}
	s.send(program(t), "GET", "/public").expect(t, 200)
}

// Connections of clients that exceed their rate limit are closed.
func TestConnectionsOfRefusedClientsAreClosed(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
	for _, path := range []string{"/public", "/program", "/person", "/nowhere", "//public"} {
		if !s.send(program(t), "GET", path).Close {
			t.Errorf("the connection of a stranger stays open after %s", path)
		}
	}
	if said, err := io.ReadAll(s.dial("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 404 ") {
		t.Errorf("OPTIONS * gets %q, %v", said, err)
	}
	if s.send(program(t), "GET", "/program", bearer(token)).Close {
		t.Error("a program has to connect anew for each request")
	}
}

// Requests without a sign-in are limited by address, and others by sign-in.
func TestRatesAreByAddressAndSignIn(t *testing.T) {
	t.Parallel()
	parts := configWithToken()
	parts.TrustProxy = true
	parts.Limits.Strangers = httpserver.Rate{PerSecond: 1e-6, Burst: 5}
	s := start(t, parts)
	p := program(t)
	from := func(addr string) edit { return header("X-Forwarded-For", addr) }
	for range 5 {
		s.send(p, "GET", "/public", from("2001:db8::1")).expect(t, 200)
	}
	s.send(p, "GET", "/public", from("2001:db8::ffff")).expect(t, 429)
	s.send(p, "GET", "/nowhere", from("2001:db8::1")).expect(t, 429)
	s.send(p, "GET", "/public", from("2001:db8:1::1")).expect(t, 200)
	for range 2000 {
		s.send(p, "GET", "/program", from("2001:db8::1"), bearer(token)).expect(t, 200)
	}
}

func TestKnownClientsHaveALimitToo(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{Limits: httpserver.Limits{Known: httpserver.Rate{PerSecond: 1e-6, Burst: 3}}})
	for range 3 {
		s.send(program(t), "GET", "/program").expect(t, 200)
	}
	refused := s.send(program(t), "GET", "/program")
	refused.expect(t, 429)
	if refused.Header.Get("Retry-After") == "" {
		t.Error("nothing says when to try again")
	}
}

// Telegram delivers the messages of many people from a few addresses, so requests with
// the secret of the webhook are not limited.
func TestAuthenticatedRequestsAreNotLimited(t *testing.T) {
	t.Parallel()
	parts := configWithToken()
	parts.Limits.Strangers = httpserver.Rate{PerSecond: 1e-6, Burst: 3}
	proves := func(r *http.Request) bool { return r.Header.Get("X-Secret") == "it" }
	s := start(t, parts, route("POST /hook", httpserver.Public, answerBody, httpserver.KnownBy(proves)))
	for range 100 {
		s.send(program(t), "POST", "/hook", header("X-Secret", "it")).expect(t, 200)
	}
	for range 3 {
		s.send(program(t), "POST", "/hook").expect(t, 200)
	}
	s.send(program(t), "POST", "/hook").expect(t, 429)
}
