package httpserver_test

import (
	"strings"
	"testing"

	"parley/httpserver"
)

func configWithToken() httpserver.Deps {
	return httpserver.Deps{Config: httpserver.Config{Token: token}}
}

// A server without a token serves requests of its own machine.
func TestServerWithoutATokenAdmitsThisMachine(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{})
	for _, path := range []string{"/public", "/program", "/person"} {
		s.send(program(t), "GET", path).expect(t, 200)
	}
	s.send(program(t), "POST", "/program").expect(t, 200)
	s.send(program(t), "POST", "/program", bearer("whatever a client library insists on")).expect(t, 200)
}

// A page whose host name resolves to this machine (DNS rebinding) is refused.
func TestPageWithAnotherHostNameIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{Config: httpserver.Config{Token: token, Hosts: []string{"Chat.Example.com"}}})
	for name, status := range map[string]int{
		"evil.example": 421, "evil.example:8787": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "10.0.0.1": 421,
		"localhost": 200, "LOCALHOST:8787": 200, "127.0.0.1:1": 200, "[::1]:8787": 200, "chat.example.com": 200, "chat.example.com:443": 200,
	} {
		s.send(program(t), "GET", "/program", host(name), bearer(token)).expect(t, status)
		s.send(program(t), "GET", "/public", host(name)).expect(t, 200)
	}
}

func TestAPageOfAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]httpserver.Config{"without a token": {}, "with a token": {Token: token}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, httpserver.Deps{Config: config})
			b := browser(t)
			s.signIn(b, token).expect(t, 303)
			for _, path := range []string{"/program", "/person"} {
				s.send(b, "POST", path, header("Sec-Fetch-Site", "same-origin"), header("Origin", s.url)).expect(t, 200)
				s.send(b, "POST", path, header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://evil.example")).expect(t, 403)
				s.send(b, "POST", path, header("Sec-Fetch-Site", "same-site")).expect(t, 403)
				s.send(b, "POST", path, header("Origin", "http://localhost:1")).expect(t, 403)
				s.send(b, "POST", path, header("Origin", "null")).expect(t, 403)
			}
		})
	}
}

// If the server has no token, a token in a request does not count as authentication.
func TestTokenInARequestProvesNothingWhereNoneIsConfigured(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{})
	for _, path := range []string{"/program", "/person"} {
		s.send(program(t), "POST", path, bearer("made up"), header("Origin", "https://evil.example")).expect(t, 403)
	}
	s = start(t, configWithToken())
	s.send(program(t), "POST", "/program", bearer(token), header("Origin", "https://app.example")).expect(t, 200)
}

// Requests of other sites' pages are refused even if they only load something: they could measure its time.
func TestAPageOfAnotherSiteLoadsNothing(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]httpserver.Config{"without a token": {}, "with a token": {Token: token}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, httpserver.Deps{Config: config})
			b := browser(t)
			s.signIn(b, token).expect(t, 303)
			for _, path := range []string{"/program", "/person"} {
				for _, site := range []string{"cross-site", "same-site"} {
					s.send(b, "GET", path, header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", "no-cors")).expect(t, 403)
					s.send(b, "GET", path, header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", "navigate")).expect(t, 200)
				}
				s.send(b, "GET", path, header("Sec-Fetch-Site", "same-origin"), header("Sec-Fetch-Mode", "cors")).expect(t, 200)
			}
			s.send(b, "GET", "/public", header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors")).expect(t, 200)
		})
	}
}

// A page behind a proxy is accepted if the proxy is at another port than 443.
func TestPageBehindAProxyIsAcceptedAtAnyPort(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{Config: httpserver.Config{Token: token, Hosts: []string{"Chat.Example.com"}}})
	b := browser(t)
	s.signIn(b, token).expect(t, 303)
	for _, origin := range []string{"https://chat.example.com", "https://chat.example.com:8443"} {
		s.send(b, "POST", "/program", header("Origin", origin), header("Sec-Fetch-Site", "same-origin")).expect(t, 200)
	}
	s.send(b, "POST", "/program", header("Origin", "https://chat.example.com.evil.example"), header("Sec-Fetch-Site", "same-site")).expect(t, 403)
	s.send(b, "POST", "/program", header("Origin", "https://chat.example.com:8443"), header("Sec-Fetch-Site", "same-site")).expect(t, 403)
}

// A request without the headers that name its origin is accepted: such old browsers do not send the
// cookie from other sites.
func TestCookieIsAcceptedFromPagesOfThisSiteOnly(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
	cookie := s.signIn(browser(t), token).Header.Get("Set-Cookie")
	for _, attribute := range []string{"SameSite=Strict", "HttpOnly"} {
		if !strings.Contains(cookie, attribute) {
			t.Errorf("the cookie is not %s: %s", attribute, cookie)
		}
	}
}

func TestProgramsSendTheToken(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
	p := program(t)
	refused := s.send(p, "GET", "/program")
	refused.expect(t, 401)
	if got := refused.Header.Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate: %q", got)
	}
	s.send(p, "GET", "/program", bearer(token)).expect(t, 200)
	s.send(p, "POST", "/program", bearer(token)).expect(t, 200)
	s.send(p, "POST", "/program", header("Authorization", "bearer "+token)).expect(t, 200)
	s.send(p, "GET", "/program", bearer(token+"x")).expect(t, 401)
	s.send(p, "GET", "/program", bearer("")).expect(t, 401)
	s.send(p, "GET", "/program", header("Authorization", "Basic "+token)).expect(t, 401)
	s.send(p, "GET", "/public").expect(t, 200)
}

// A request with a wrong token is refused even if it has the cookie of a signed-in browser.
func TestWrongTokenIsRefusedDespiteAValidCookie(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
	b := browser(t)
	s.signIn(b, token).expect(t, 303)
	s.send(b, "GET", "/program").expect(t, 200)
	s.send(b, "GET", "/program", bearer("wrong")).expect(t, 401)
	s.send(b, "GET", "/person", bearer("wrong")).expect(t, 401)
	s.send(b, "GET", "/public", bearer("wrong")).expect(t, 401)
}

func TestAnswersAllowNoInlineCode(t *testing.T) {
	t.Parallel()
	s := start(t, configWithToken())
	for _, path := range []string{"/public", "/program", "/person", "/signin", "/nowhere"} {
		answer := s.send(program(t), "GET", path)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		policy := answer.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'; script-src 'self'; style-src 'self'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
}

func TestUnknownPathIsAnsweredWithAProblem(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{}, route("GET /only/get", httpserver.Program, answerBody))
	s.send(program(t), "GET", "/nowhere").expect(t, 404)
	wrong := s.send(program(t), "DELETE", "/only/get")
	wrong.expect(t, 405)
	if got := wrong.Header.Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow: %q", got)
	}
	page := s.send(program(t), "GET", "/nowhere", header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"))
	page.expect(t, 404)
	if !strings.Contains(page.body, "<h1>Not Found</h1>") {
		t.Errorf("a browser is shown %s", page.body)
	}
}
