package httpserver_test

import (
	"context"
	"strings"
	"testing"

	"parley/httpserver"
)

// Health needs no token; its details do.
func TestHealthIsPublicAndItsDetailsAreNot(t *testing.T) {
	t.Parallel()
	parts := configWithToken()
	var works bool
	parts.Ready = func(context.Context) (bool, any) { return works, map[string]string{"store": "detail"} }
	s := start(t, parts)
	s.send(program(t), "GET", "/healthz", host("10.0.0.7:8787")).expect(t, 200)
	for _, status := range []int{200, 503} {
		works = status == 200
		s.send(program(t), "HEAD", "/readyz").expect(t, status)
		stranger := s.send(program(t), "GET", "/readyz")
		stranger.expect(t, status)
		known := s.send(program(t), "GET", "/readyz", bearer(token))
		known.expect(t, status)
		if strings.Contains(stranger.body, "detail") || !strings.Contains(known.body, "detail") {
			t.Errorf("a stranger is told %s, who is signed in %s", stranger.body, known.body)
		}
	}
}

// A page whose host name resolves to this machine gets no details.
func TestHealthDetailsAreNotForForeignPages(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{Ready: func(context.Context) (bool, any) { return true, "detail" }})
	if told := s.send(program(t), "GET", "/readyz").body; !strings.Contains(told, "detail") {
		t.Errorf("on this machine one is told %s", told)
	}
	if told := s.send(program(t), "GET", "/readyz", host("evil.example")).body; strings.Contains(told, "detail") {
		t.Errorf("a foreign page is told %s", told)
	}
}
