package httpserver_test

import (
	"strings"
	"testing"

	"parley/httpserver"
)

// A server without a token refuses requests that came through a proxy.
func TestOpenServerAnswersNoProxy(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{})
	for _, proxied := range []edit{
		header("X-Forwarded-For", "203.0.113.9"), header("X-Forwarded-For", "127.0.0.1"), header("X-Forwarded-Proto", "https"), header("X-Forwarded-Host", "localhost"),
		header("Forwarded", "for=203.0.113.9"), header("Via", "1.1 proxy"), header("X-Real-IP", "203.0.113.9"),
	} {
		for _, path := range []string{"/program", "/person"} {
			refused := s.send(program(t), "GET", path, proxied, bearer("any"))
			refused.expect(t, 403)
			if !strings.Contains(refused.body, `auth = \"none\"`) {
				t.Errorf("refused with %s", refused.body)
			}
		}
		s.send(program(t), "GET", "/public", proxied).expect(t, 200)
	}
	s.send(program(t), "GET", "/program").expect(t, 200)
}

// The server checks the resolved address at its start, which the configuration's check can't do.
func TestOpenServerListensOnItsOwnMachineAlone(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		_, err := httpserver.New(httpserver.Deps{Config: httpserver.Config{Listen: &listen, Auth: httpserver.AuthNone, MaxConnections: 1}})
		if err == nil || !strings.Contains(err.Error(), "other machines") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

// A server without a token sets no cookie, which could be mistaken for the sign-in of another server.
func TestOpenServerSetsNoCookie(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{})
	b := browser(t)
	for _, method := range []string{"GET", "POST"} {
		answer := s.send(b, method, "/person")
		answer.expect(t, 200)
		if cookie := answer.Header.Get("Set-Cookie"); cookie != "" {
			t.Errorf("%s sets the cookie %q", method, cookie)
		}
	}
}
