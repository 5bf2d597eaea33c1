package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
)

// A body that is too large is refused in the same words by all parts of the API, with the limit.
func TestTooLargeBodyIsRefusedWithTheLimit(t *testing.T) {
	t.Parallel()
	gw := gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll})
	g := &gateway{t: t, gw: gw, model: gw.Model, url: gw.URL}
	g.ask(task, "hello")
	for path, limit := range map[string]int{
		"/api/v1/sessions/" + task + "/messages": 24 << 20,
		"/api/v1/sessions/" + task + "/reset":    1 << 20,
		"/v1/chat/completions":                   24 << 20,
	} {
		r := g.do("POST", path, strings.Repeat(" ", limit+1))
		if want := fmt.Sprintf("The body is too large. Allowed: %d bytes.", limit); r.status != http.StatusRequestEntityTooLarge || !strings.Contains(r.text, want) || strings.Contains(r.text, "errors") {
			t.Errorf("%s: %d %s, want %s", path, r.status, r.text, want)
		}
		if r := g.do("POST", path, "{"+strings.Repeat(" ", limit-2)+"}"); r.status == http.StatusRequestEntityTooLarge {
			t.Errorf("%s: a body of the size that is allowed gets %d %s", path, r.status, r.text)
		}
	}
}

// A body that is missing, or of another type, as curl -d sends it, is refused in words that say what to send.
func TestBodyThatIsNoJSONIsRefusedInPlainWords(t *testing.T) {
	t.Parallel()
	gw := gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll})
	g := &gateway{t: t, gw: gw, model: gw.Model, url: gw.URL}
	path := "/api/v1/sessions/" + task + "/messages"
	r := g.do("POST", path, `{"text":"hello"}`, "Content-Type: application/x-www-form-urlencoded")
	if want := "The body has the type application/x-www-form-urlencoded. Allowed: application/json."; r.status != http.StatusUnsupportedMediaType || r.object["detail"] != want {
		t.Errorf("another type: %d %s", r.status, r.text)
	}
	r = g.do("POST", path, "")
	if want := "The request has no body. Allowed: JSON, with the header Content-Type: application/json."; r.status != http.StatusBadRequest || r.object["detail"] != want {
		t.Errorf("no body: %d %s", r.status, r.text)
	}
}
