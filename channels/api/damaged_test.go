package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/internal/dbdamage"
)

func TestDamagedSessionIsReportedAndReplacedByNew(t *testing.T) {
	t.Parallel()
	const lost, other = "api:lost", "api:other"
	g := start(t)
	for n := range 12 {
		g.ask(lost, fmt.Sprintf("%d %s", n, strings.Repeat("marble ", 100)))
	}
	g.ask(other, "hello")
	g.gw.Stop()
	pages := slices.DeleteFunc(dbdamage.Leaves(t, g.gw.Database, "messages"), func(p dbdamage.Page) bool { return !p.Has("marble") })
	dbdamage.Destroy(t, g.gw.Database, pages[len(pages)/2])
	g.gw.Start()
	if r := g.ask(lost, "hello?"); r.object["status"] != "failed" || !strings.Contains(fmt.Sprint(r.object["reply"]), "/new") {
		t.Errorf("a message gets %d %s", r.status, r.text)
	}
	if r := g.do("GET", "/api/v1/sessions/"+lost+"/messages", ""); r.status != http.StatusInternalServerError || !strings.Contains(r.text, "damaged") {
		t.Errorf("the messages are answered %d %s", r.status, r.text)
	}
	if r := g.do("GET", "/readyz", ""); r.status != http.StatusServiceUnavailable || !strings.Contains(r.text, "messages of "+lost) {
		t.Errorf("/readyz says %d %s", r.status, r.text)
	}
	if r := g.ask(other, "hello"); r.object["reply"] != "echo: hello" {
		t.Errorf("another session gets %d %s", r.status, r.text)
	}
	g.ask(lost, "/new")
	if r := g.ask(lost, "hello"); r.object["reply"] != "echo: hello" {
		t.Errorf("after /new a message gets %d %s", r.status, r.text)
	}
	if n := strings.Count(g.gw.Log.String(), `part="messages of api:lost"`); n != 1 {
		t.Errorf("the log tells %d times", n)
	}
}
