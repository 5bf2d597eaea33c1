package httpserver_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation/signin"
	"parley/httpserver"
	"parley/internal/waittest"
)

func TestSigningInAndOut(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
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
	if !strings.HasPrefix(cookie, "parley-") || !strings.HasSuffix(cookie, "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict") {
		t.Errorf("the cookie is %q", cookie)
	}
	s.send(b, "GET", "/person").expect(t, 200)
	s.send(b, "GET", "/program").expect(t, 200)

	s.send(b, "POST", "/signout", header("Origin", "https://evil.example")).expect(t, 403)
	s.send(b, "POST", "/signout").expect(t, 303)
	s.send(b, "GET", "/person").expect(t, 303)
}

// A sign-in survives a restart, and ends with its time or with the token.
func TestSignInEndsWithItsTimeOrTheToken(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	signIns := signin.New(newStore(t))
	first := start(t, httpserver.Deps{Config: httpserver.Config{Token: token}, SignIns: signIns, Now: clock})
	pass := header("Cookie", first.signIn(program(t), token).Header.Get("Set-Cookie"))
	first.stop()

	second := start(t, httpserver.Deps{Config: httpserver.Config{Token: token}, SignIns: signIns, Now: clock})
	second.send(program(t), "GET", "/person", pass).expect(t, 200)
	start(t, httpserver.Deps{Config: httpserver.Config{Token: token + "2"}, SignIns: signIns, Now: clock}).send(program(t), "GET", "/person", pass).expect(t, 303)
	later.Store(int64(30*24*time.Hour - time.Minute))
	second.send(program(t), "GET", "/person", pass).expect(t, 200)
	later.Store(int64(30*24*time.Hour + time.Minute))
	second.send(program(t), "GET", "/person", pass).expect(t, 303)
}

func TestForgedCookiesAreNoSignIn(t *testing.T) {
	t.Parallel()
	signIns := signin.New(newStore(t))
	s := start(t, httpserver.Deps{Config: httpserver.Config{Token: token}, SignIns: signIns})
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
	s = start(t, httpserver.Deps{Config: httpserver.Config{Token: token}, SignIns: signIns, Limits: httpserver.Limits{Strangers: httpserver.Rate{PerSecond: 1, Burst: 1000}}})
	for _, value := range forged {
		s.send(program(t), "GET", "/person", header("Cookie", cookie.Name+"="+value)).expect(t, 303)
	}
	s.send(program(t), "GET", "/person", header("Cookie", cookie.Name+"="+cookie.Value)).expect(t, 200)
}

func TestSignInLeadsToNoOtherSite(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, `\\evil.example`, "javascript:alert(1)", "", "person"} {
		answer := s.send(program(t), "POST", "/signin", form(url.Values{"token": {token}, "next": {next}}))
		answer.expect(t, 303)
		if where := answer.Header.Get("Location"); where != "/" {
			t.Errorf("%q leads to %q", next, where)
		}
	}
}

// Behind a proxy with TLS, the cookie is set with Secure.
func TestTheCookieIsSecureBehindATrustedProxy(t *testing.T) {
	t.Parallel()
	tls := header("X-Forwarded-Proto", "https")
	trusting := start(t, httpserver.Deps{Config: httpserver.Config{Token: token, TrustProxy: true}})
	cookie := trusting.signIn(program(t), token, tls).Header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-parley-") || !strings.Contains(cookie, "; Secure") {
		t.Errorf("the cookie is %q", cookie)
	}
	trusting.send(program(t), "GET", "/person", tls, header("Cookie", cookie)).expect(t, 200)
	if cookie := start(t, configWithToken()).signIn(program(t), token, tls).Header.Get("Set-Cookie"); strings.Contains(cookie, "Secure") {
		t.Errorf("a header that anybody can write was believed: %q", cookie)
	}
}

// A person who is signed in does not have to sign in again after following a link from another site.
func TestALinkFromAnotherSiteFindsTheSignIn(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
	followed := s.send(program(t), "GET", "/person", header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"))
	followed.expect(t, 200)
	if !strings.Contains(followed.body, `http-equiv="refresh"`) {
		t.Errorf("shown %s", followed.body)
	}
	s.send(program(t), "GET", "/person", header("Sec-Fetch-Site", "same-origin")).expect(t, 303)
}

// The right token is accepted at once, even if somebody guesses tokens from the same address.
func TestRightTokenIsNeverRefused(t *testing.T) {
	t.Parallel()
	parts := configWithToken()
	parts.TrustProxy = true
	parts.Limits.Guesses = httpserver.Rate{PerSecond: 1e-6, Burst: 3}
	parts.Limits.Strangers = httpserver.Rate{PerSecond: 1e-6, Burst: 20}
	s := start(t, parts)
	b := browser(t)
	s.signIn(b, token).expect(t, 303)
	s.signIn(program(t), "wrong").expect(t, 401)
	s.send(program(t), "GET", "/program", bearer("wrong")).expect(t, 401)
	s.signIn(program(t), "wrong").expect(t, 401)
	for range 30 { // more than strangers may ask, too
		s.send(program(t), "GET", "/program", bearer("wrong")).expect(t, 429)
		s.signIn(program(t), "wrong").expect(t, 429)
		s.send(program(t), "GET", "/public")
		s.send(program(t), "GET", "/program", bearer(token)).expect(t, 200)
		s.send(program(t), "GET", "/signin").expect(t, 200)
		s.signIn(program(t), token).expect(t, 303)
	}
	s.send(program(t), "GET", "/public").expect(t, 429)
	s.send(b, "GET", "/person").expect(t, 200)
	elsewhere := header("X-Forwarded-For", "203.0.113.9, 198.51.100.7")
	s.send(program(t), "GET", "/program", bearer("wrong"), elsewhere).expect(t, 401)
	for what, text := range map[string]string{"the token": token, "a guess": "wrong\"", "a query": "?a=b"} {
		if strings.Contains(s.log.String(), text) {
			t.Errorf("%s stands in the log", what)
		}
	}
}

// Wrong tokens are logged with the sender's address, and many of them do not fill the log.
func TestWrongTokensAreLoggedWithTheirAddress(t *testing.T) {
	t.Parallel()
	parts := configWithToken()
	parts.TrustProxy = true
	s := start(t, parts)
	for range 50 {
		s.send(program(t), "GET", "/program", bearer("wrong"), header("X-Forwarded-For", "198.51.100.7"))
		s.signIn(program(t), "wrong", header("X-Forwarded-For", "2001:db8::7"))
	}
	for i := range 200 {
		s.send(program(t), "GET", "/program", bearer("wrong"), header("X-Forwarded-For", fmt.Sprint("192.0.2.", i)))
	}
	for _, address := range []string{"198.51.100.7", "2001:db8::7"} {
		if n := strings.Count(s.log.String(), "msg=\"wrong token\" address="+address+" "); n != 1 {
			t.Errorf("%s is logged %d times", address, n)
		}
	}
	if n := strings.Count(s.log.String(), "level=WARN"); n > 20 {
		t.Errorf("300 wrong tokens make %d lines of the log", n)
	}
}

// Guessing through many connections at once is not faster than through one.
func TestParallelGuessesAreAsSlow(t *testing.T) {
	t.Parallel()
	const most, tries = 3, 400
	parts := configWithToken()
	parts.Limits.Guesses = httpserver.Rate{PerSecond: 1e-6, Burst: most}
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

// Answers to wrong tokens are delayed, and the number of waiting ones is limited: wrong tokens from many
// addresses use up neither connections nor memory.
func TestDelayedAnswersAreBounded(t *testing.T) {
	t.Parallel()
	const most, tries = 4, 100
	parts := configWithToken()
	parts.TrustProxy = true
	parts.Limits.GuessDelay, parts.Limits.DelayedAnswers = time.Hour, most
	s := start(t, parts)
	answers := make(chan string, tries)
	for i := range tries {
		conn := s.dial(fmt.Sprintf("GET /program HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.%d\r\nAuthorization: Bearer wrong\r\n\r\n", i))
		go func() {
			answer, _ := io.ReadAll(conn)
			answers <- string(answer[:min(len(answer), len("HTTP/1.1 429"))])
		}()
	}
	for range tries - most {
		if got := waittest.Receive(t, answers, "an answer"); got != "HTTP/1.1 429" {
			t.Errorf("a guess too many is answered %q", got)
		}
	}
	s.send(program(t), "GET", "/program", bearer(token)).expect(t, 200)
	s.stop() // does not wait for the hour
	for range most {
		if got := waittest.Receive(t, answers, "an answer"); got != "HTTP/1.1 401" {
			t.Errorf("a delayed guess is answered %q", got)
		}
	}
}

// A cookie of the same name from another program on the same host does not sign people out.
func TestForeignCookieBesideTheSignInIsIgnored(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
	cookie, err := http.ParseSetCookie(s.signIn(program(t), token).Header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	s.send(program(t), "GET", "/person", header("Cookie", fmt.Sprintf("%[1]s=foreign; %[1]s=%s", cookie.Name, cookie.Value))).expect(t, 200)
	s.send(program(t), "GET", "/person", header("Cookie", fmt.Sprintf("%[1]s=foreign; %[1]s=", cookie.Name))).expect(t, 303)
}
