package api_test

import (
	"net/http"
	"strings"
	"testing"

	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
)

// While the disk is full, programs are told to send a message again later, and the gateway is not ready,
// although small writes still find room.
func TestMessagesAreRefusedWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	gw := gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll})
	g := &gateway{t: t, gw: gw, model: gw.Model, url: gw.URL}
	g.ask(task, "before")
	if status := g.ready(); status != http.StatusOK {
		t.Fatalf("/readyz answers %d", status)
	}
	storetest.Exec(t, gw.Store(), "PRAGMA max_page_count = 1") // SQLite raises it to the present size
	long := strings.Repeat("a long text ", 20_000)
	if r := g.ask(task, long, "Idempotency-Key: long"); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || !strings.Contains(r.text, "disk is full") {
		t.Errorf("a message gets %d %.300s", r.status, r.text)
	}
	gatewaytest.Await(t, "the gateway is not ready", func() bool { return g.ready() == http.StatusServiceUnavailable })
	storetest.Exec(t, gw.Store(), "PRAGMA max_page_count = 4294967294")
	if r := g.ask(task, long, "Idempotency-Key: long"); r.status != http.StatusOK {
		t.Errorf("sent again, it gets %d %.300s", r.status, r.text)
	}
}
