package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/tools/mcp/mcptest"
)

// An answer that is too long, nests too deep or is no JSON ends its call at once, whether or not the call may be
// repeated. It is not repeated, and the session with the server goes on.
func TestUnreadableAnswerOfAServerAtAnAddress(t *testing.T) {
	t.Parallel()
	event := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }
	for name, tt := range map[string]struct {
		send func(http.ResponseWriter, json.RawMessage)
		why  string
	}{
		"long": {func(w http.ResponseWriter, id json.RawMessage) { answer(w, id, mcptest.Long()) }, "more than 16 MiB"},
		"deep": {func(w http.ResponseWriter, id json.RawMessage) { answer(w, id, mcptest.Deep()) }, "can't be read"},
		"page": {func(w http.ResponseWriter, _ json.RawMessage) { io.WriteString(w, "<html>Welcome!</html>") }, "can't be read"},
		"long event": {func(w http.ResponseWriter, id json.RawMessage) {
			event(w)
			io.WriteString(w, "event: message\nid: 1\ndata: ")
			answer(w, id, mcptest.Long())
			io.WriteString(w, "\n\n")
		}, "more than 16 MiB"},
		"deep event": {func(w http.ResponseWriter, id json.RawMessage) {
			event(w)
			io.WriteString(w, "id: 1\ndata: ")
			answer(w, id, mcptest.Deep())
			io.WriteString(w, "\n\n")
		}, "can't be read"},
		"endless events": {func(w http.ResponseWriter, _ json.RawMessage) {
			event(w)
			for n := 0; ; n++ {
				if _, err := fmt.Fprintf(w, "id: %d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%q}}\n\n", n, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		}, "more than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls, sessions atomic.Int64
			shop := rawShop(func(w http.ResponseWriter, id json.RawMessage) {
				if calls.Add(1)%2 == 1 {
					tt.send(w, id)
					return
				}
				answer(w, id, `{"content":[{"type":"text","text":"ok"}]}`)
			}, nil)
			h, _ := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Mcp-Session-Id") == "" && r.Method == http.MethodPost {
					sessions.Add(1)
				}
				shop.ServeHTTP(w, r)
			}), func(c *Config, _ *Options) { c.Timeout, c.Eager = time.Hour, true })
			go h.Run(t.Context())
			eventually(t, "the tools", func() bool { return h.registry.Has("shop_look") })
			before := sessions.Load()
			for _, tool := range []string{"look", "pay"} {
				if text, err := h.call("shop_"+tool, "{}"); err == nil || !strings.Contains(text, tt.why) || !strings.Contains(text, "whether it was done is not known") {
					t.Errorf("%s: %.200q, %v; want %q", tool, text, err, tt.why)
				}
				if text, err := h.call("shop_"+tool, "{}"); err != nil || text != "ok" {
					t.Errorf("%s afterwards: %q, %v", tool, text, err)
				}
			}
			if calls.Load() != 4 || sessions.Load() != before {
				t.Errorf("%d calls in %d further sessions", calls.Load(), sessions.Load()-before)
			}
		})
	}
}
