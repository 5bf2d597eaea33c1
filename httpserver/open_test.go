package httpserver_test

import (
	"strings"
	"testing"

	"parley/httpserver"
)

// A server that asks for no token is for its own machine, whatever stands in
// front of it.
func TestOpenServerAnswersNoProxy(t *testing.T) {
	s := start(t, httpserver.Parts{})
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

// What the address means is looked up at the start, so the configuration's
// check alone does not do.
func TestOpenServerListensOnItsOwnMachineAlone(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		_, err := httpserver.New(httpserver.Parts{Config: httpserver.Config{Listen: &listen, Auth: httpserver.AuthNone, MaxConnections: 1}})
		if err == nil || !strings.Contains(err.Error(), "other machines") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

// The keys of cookies and forms are made from a secret, also where no token is
// asked for: what one server has issued is nothing at another.
func TestOpenServersShareNoKeys(t *testing.T) {
	one, other := start(t, httpserver.Parts{}), start(t, httpserver.Parts{})
	b := browser(t)
	page := one.send(b, "GET", "/person")
	page.expect(t, 200)
	name, value, _ := strings.Cut(strings.Split(page.Header.Get("Set-Cookie"), ";")[0], "=")
	otherName, _, _ := strings.Cut(other.send(program(t), "GET", "/person").Header.Get("Set-Cookie"), "=")
	if name == otherName {
		t.Errorf("both call their cookie %q", name)
	}
	one.send(program(t), "POST", "/person", header("Cookie", name+"="+value), header("X-CSRF-Token", page.body)).expect(t, 200)
	other.send(program(t), "POST", "/person", header("Cookie", otherName+"="+value), header("X-CSRF-Token", page.body)).expect(t, 403)
}

// A page of a server that asked for nothing is no sign-in once it asks.
func TestPassOfAnOpenServerIsNoSignIn(t *testing.T) {
	s, file, _ := withFile(t)
	open := start(t, httpserver.Parts{Config: httpserver.Config{Auth: httpserver.AuthNone}, TokenFile: file})
	cookie := header("Cookie", open.send(program(t), "GET", "/person").Header.Get("Set-Cookie"))
	s.send(program(t), "GET", "/person", cookie).expect(t, 303)
}
