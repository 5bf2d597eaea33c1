package httpserver_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/httpserver"
)

func TestSigningInAndOut(t *testing.T) {
	s := start(t, withToken())
	b := browser(t)
	asked := s.send(b, "GET", "/person?a=b&c")
	asked.expect(t, 303)
	where := asked.Header.Get("Location")
	if where != "/signin?next=%2Fperson%3Fa%3Db%26c" {
		t.Fatalf("sent to %q", where)
	}
	if page := s.send(b, "GET", where); !strings.Contains(page.body, `name="next" value="/person?a=b&amp;c"`) {
		t.Fatalf("the page does not know where to go on: %s", page.body)
	}
	s.send(b, "POST", "/person").expect(t, 401)

	in := s.signIn(b, " "+token+"\n") // as copied from a terminal
	in.expect(t, 303)
	if in.Header.Get("Location") != "/person" {
		t.Errorf("sent to %q", in.Header.Get("Location"))
	}
	cookie := in.Header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "parley=") || !strings.HasSuffix(cookie, "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict") {
		t.Errorf("the cookie is %q", cookie)
	}
	csrf := s.send(b, "GET", "/person")
	csrf.expect(t, 200)
	s.send(b, "GET", "/program").expect(t, 200)

	s.send(b, "POST", "/signout").expect(t, 403)
	s.send(b, "POST", "/signout", header("X-CSRF-Token", csrf.body)).expect(t, 303)
	s.send(b, "GET", "/person").expect(t, 303)
}

// A sign-in outlives the gateway, and ends with its time or with the token.
func TestHowLongASignInHolds(t *testing.T) {
	var later atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	first := start(t, httpserver.Parts{Config: httpserver.Config{Token: token}, Now: clock})
	pass := header("Cookie", first.signIn(program(t), token).Header.Get("Set-Cookie"))
	first.stop()

	second := start(t, httpserver.Parts{Config: httpserver.Config{Token: token}, Now: clock})
	second.send(program(t), "GET", "/person", pass).expect(t, 200)
	start(t, httpserver.Parts{Config: httpserver.Config{Token: token + "2"}, Now: clock}).send(program(t), "GET", "/person", pass).expect(t, 303)
	later.Store(int64(30*24*time.Hour - time.Minute))
	second.send(program(t), "GET", "/person", pass).expect(t, 200)
	later.Store(int64(30*24*time.Hour + time.Minute))
	second.send(program(t), "GET", "/person", pass).expect(t, 303)
}

func TestForgedCookiesAreNoSignIn(t *testing.T) {
	s := start(t, withToken())
	cookie, err := http.ParseSetCookie(s.signIn(program(t), token).Header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	forged := []string{"", "x", token, strings.Repeat("A", len(cookie.Value)), cookie.Value + "A", cookie.Value[1:]}
	for i := range cookie.Value {
		changed := []byte(cookie.Value)
		if changed[i] == 'A' {
			changed[i] = 'B'
		} else {
			changed[i] = 'A'
		}
		forged = append(forged, string(changed))
	}
	s = start(t, httpserver.Parts{Config: httpserver.Config{Token: token}, Limits: httpserver.Limits{Strangers: httpserver.Rate{PerSecond: 1, Burst: 1000}}})
	for _, value := range forged {
		s.send(program(t), "GET", "/person", header("Cookie", "parley="+value)).expect(t, 303)
	}
	s.send(program(t), "GET", "/person", header("Cookie", "parley="+cookie.Value)).expect(t, 200)
}

func TestSignInLeadsToNoOtherSite(t *testing.T) {
	s := start(t, withToken())
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, `\\evil.example`, "javascript:alert(1)", "", "person"} {
		answer := s.send(program(t), "POST", "/signin", form(url.Values{"token": {token}, "next": {next}}))
		answer.expect(t, 303)
		if where := answer.Header.Get("Location"); where != "/" {
			t.Errorf("%q leads to %q", next, where)
		}
	}
}

// Behind a proxy with TLS, the cookie must never be sent without.
func TestTheCookieIsSecureBehindATrustedProxy(t *testing.T) {
	tls := header("X-Forwarded-Proto", "https")
	trusting := start(t, httpserver.Parts{Config: httpserver.Config{Token: token, TrustProxy: true}})
	cookie := trusting.signIn(program(t), token, tls).Header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-parley=") || !strings.Contains(cookie, "; Secure") {
		t.Errorf("the cookie is %q", cookie)
	}
	trusting.send(program(t), "GET", "/person", tls, header("Cookie", cookie)).expect(t, 200)
	if cookie := start(t, withToken()).signIn(program(t), token, tls).Header.Get("Set-Cookie"); strings.Contains(cookie, "Secure") {
		t.Errorf("a header that anybody can write was believed: %q", cookie)
	}
}

// A link in a chat must not ask who is signed in to sign in again.
func TestALinkFromAnotherSiteFindsTheSignIn(t *testing.T) {
	s := start(t, withToken())
	followed := s.send(program(t), "GET", "/person", header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"))
	followed.expect(t, 200)
	if !strings.Contains(followed.body, `http-equiv="refresh"`) {
		t.Errorf("shown %s", followed.body)
	}
	s.send(program(t), "GET", "/person", header("Sec-Fetch-Site", "same-origin")).expect(t, 303)
}

func TestGuessingATokenIsSlow(t *testing.T) {
	parts := withToken()
	parts.TrustProxy = true
	parts.Limits.Guesses = httpserver.Rate{PerSecond: 1e-6, Burst: 3}
	s := start(t, parts)
	b := browser(t)
	s.signIn(b, token).expect(t, 303)
	s.signIn(program(t), "wrong").expect(t, 401)
	s.send(program(t), "GET", "/program", bearer("wrong")).expect(t, 401)
	s.signIn(program(t), "wrong").expect(t, 401)
	s.signIn(program(t), token).expect(t, 429)
	s.send(program(t), "GET", "/program", bearer(token)).expect(t, 429)
	s.send(b, "GET", "/person").expect(t, 200) // who is in already is not put out
	elsewhere := header("X-Forwarded-For", "203.0.113.9, 198.51.100.7")
	s.send(program(t), "GET", "/program", bearer(token), elsewhere).expect(t, 200)
	for what, text := range map[string]string{"the token": token, "a query": "?a=b"} {
		if strings.Contains(s.log.String(), text) {
			t.Errorf("%s stands in the log", what)
		}
	}
}

// Asking in many connections at once must not be a way to guess faster.
func TestGuessingAllAtOnceIsAsSlow(t *testing.T) {
	const most, tries = 3, 400
	parts := withToken()
	parts.Limits.Guesses = httpserver.Rate{PerSecond: 1e-6, Burst: most}
	parts.Limits.Strangers = httpserver.Rate{PerSecond: 1, Burst: 2 * tries}
	s := start(t, parts)
	requests := make([]net.Conn, tries)
	for i := range requests {
		requests[i] = s.dial("GET /program HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer wrong\r\n")
	}
	var told atomic.Int64
	var all sync.WaitGroup
	for _, conn := range requests {
		all.Go(func() {
			io.WriteString(conn, "\r\n")
			if answer, _ := io.ReadAll(conn); strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
				told.Add(1)
			}
		})
	}
	all.Wait()
	if told.Load() != most {
		t.Errorf("%d guesses were told to be wrong, want %d", told.Load(), most)
	}
}

// Another program of the same machine must not sign people out by a cookie of
// the same name.
func TestAForeignCookieBesideThePassIsNoMatter(t *testing.T) {
	s := start(t, withToken())
	cookie, err := http.ParseSetCookie(s.signIn(program(t), token).Header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	s.send(program(t), "GET", "/person", header("Cookie", "parley=foreign; parley="+cookie.Value)).expect(t, 200)
	s.send(program(t), "GET", "/person", header("Cookie", "parley=foreign; parley=")).expect(t, 303)
}
