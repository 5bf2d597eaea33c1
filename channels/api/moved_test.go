package api_test

import (
	"net/http"
	"os"
	"testing"

	"parley/gateway/gatewaytest"
)

// A message that is refused while the database is away can be sent again when it is back, and is then
// answered once, even if it was stored just when the file was moved.
func TestMessagesAreRefusedWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	g := start(t)
	gatewaytest.Await(g.t, "a message is answered", func() bool { return g.ask(task, "before", "Idempotency-Key: before").status == http.StatusOK })
	for _, key := range []string{"once", "twice"} {
		away := g.gw.Database + ".away"
		g.must(os.Rename(g.gw.Database, away))
		if r := g.ask(task, "hello", "Idempotency-Key: "+key); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
			t.Errorf("a message gets %d %s", r.status, r.text)
		}
		gatewaytest.Await(g.t, "the gateway is not ready", func() bool { return g.ready() == http.StatusServiceUnavailable })
		g.must(os.Rename(away, g.gw.Database))
		gatewaytest.Await(g.t, "the gateway is ready", func() bool { return g.ready() == http.StatusOK })
		if r := g.ask(task, "hello", "Idempotency-Key: "+key); r.status != http.StatusOK || r.object["reply"] != "echo: hello" {
			t.Errorf("sent again, it gets %d %s", r.status, r.text)
		}
	}
	g.gw.Kill()
	g.gw.Start()
	if got := contents(g.get("/sessions/" + task + "/messages")); len(got) != 6 {
		t.Errorf("after a kill the session holds %q", got)
	}
}

func (g *gateway) ready() int {
	g.t.Helper()
	answer, err := http.Get(g.url + "/readyz")
	g.must(err)
	g.must(answer.Body.Close())
	return answer.StatusCode
}
