package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"

	"parley/conversation/storetest"
	"parley/metrics"
)

// An alert on a queue must be able to tell an empty queue from a gateway without figures.
func TestEmptyQueuesOfServedChannelsAreZero(t *testing.T) {
	t.Parallel()
	store := storetest.New(t)
	g := &Gateway{store: store, channels: map[string]*served{"telegram": {}, "api": {}}}
	m := metrics.New(metrics.Deps{Queues: g.queuesInFigures})
	scrape := func() string {
		answer := httptest.NewRecorder()
		m.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		return answer.Body.String()
	}
	text := scrape()
	for _, name := range []string{"inbox_waiting", "inbox_oldest_seconds", "outbox_due", "outbox_oldest_seconds", "outbox_held", "outbox_held_oldest_seconds"} {
		for channel := range g.channels {
			if line := "parley_" + name + `{channel="` + channel + `"} 0`; !strings.Contains(text, line+"\n") {
				t.Errorf("%s is missing in\n%s", line, text)
			}
		}
	}
	storetest.Accept(t, store, storetest.Say("telegram:chat:1", 1, "hello"))
	for _, line := range []string{`parley_inbox_waiting{channel="telegram"} 1`, `parley_inbox_waiting{channel="api"} 0`} {
		if text := scrape(); strings.Count(text, line+"\n") != 1 {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
}
