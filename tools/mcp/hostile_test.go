package mcp

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// useNeighbour starts another server beside a hostile one, and returns a function that calls it from
// another session.
func useNeighbour(t *testing.T) func() {
	t.Helper()
	other := serve(t, "plain", nil).await()
	return func() {
		t.Helper()
		if text, err := other.call("shop_look", "{}"); err != nil || text != "did look" {
			t.Errorf("the call of another session: %q, %v", text, err)
		}
	}
}

// A server that breaks the protocol fails at most its own call: the next call works, and the gateway's
// memory stays bounded.
func TestServerThatBreaksTheProtocol(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it takes seconds")
	}
	t.Parallel()
	h := serve(t, "raw", nil).await()
	others := useNeighbour(t)
	for _, tt := range []struct{ tool, says string }{
		{"stderr", "did stderr"},
		{"unknown", "did unknown"},
		{"twice", "the first answer"},
		{"version", "error: the server shop ended while this ran"},
		{"notify", "did notify"},
		{"elicit", "error: the server shop ended while this ran"},
		{"nested", ""},
		{"deep", "error: the server shop ended while this ran"},
		{"long", "error: the server shop ended while this ran"},
		{"fork", "error: the server shop ended while this ran"},
	} {
		before := memory()
		text, err := h.call("shop_"+tt.tool, "{}")
		if !strings.HasPrefix(text, tt.says) {
			t.Errorf("%s: got %.200q, %v; want %q", tt.tool, text, err, tt.says)
		}
		others()
		eventually(t, "at most 32 MiB are held after "+tt.tool, func() bool { return memory()-before <= 32<<20 }) // other tests take some, too, and give it back
		eventually(t, "a call that works after "+tt.tool, func() bool {
			text, _ := h.call("shop_look", "{}")
			return text == "did look"
		})
	}
	if n := strings.Count(h.log.String(), "\n"); n > 200 {
		t.Errorf("%d lines are logged", n)
	}
}

// memory returns how many bytes of the heap are in use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A list of tools that never ends fails soon, with an explanation.
func TestListThatNeverEnds(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"circle", "pages"} {
		h := serve(t, kind, func(_ *Config, o *Options) { o.StartTimeout = time.Hour })
		go h.Run(t.Context())
		eventually(t, "the failure of "+kind, func() bool { return h.Status()[0].State == Failed })
		if is := h.Status()[0]; !strings.Contains(is.Error, "its list of tools does not end") {
			t.Errorf("%s: %+v", kind, is)
		}
	}
}

// The model is offered the first 200 allowed tools of a list of 10,000, and the operator is told so.
func TestLongListIsCut(t *testing.T) {
	t.Parallel()
	all := serve(t, "many", nil).await()
	if is := all.Status()[0]; len(all.names()) != maxTools || len(is.LeftOut) != 1 || !strings.Contains(is.LeftOut[0], "only the first 200 tools") {
		t.Errorf("%d tools are offered: %+v", len(all.names()), is)
	}
	last := serve(t, "many", func(c *Config, _ *Options) { c.Allow = []string{"tool-09999"} }).await()
	if names := last.names(); len(names) != 1 || names[0] != "shop_tool-09999" || len(last.Status()[0].LeftOut) != 0 {
		t.Errorf("offered are %q, %+v", names, last.Status()[0])
	}
}

// The name of a tool is shown without control characters.
func TestHostileNamesAreShownPlain(t *testing.T) {
	t.Parallel()
	h := serve(t, "raw", nil).await()
	is := h.Status()[0]
	if len(is.LeftOut) != 1 || !strings.Contains(is.LeftOut[0], "it is listed twice") {
		t.Fatalf("left out: %q", is.LeftOut)
	}
	shown := strings.Join(is.LeftOut, "") + h.log.String()
	for _, tool := range h.Tools("shop") {
		shown += tool.Tool
	}
	if strings.ContainsAny(shown, "\u202e\x1b\r") {
		t.Errorf("shown are %q", shown)
	}
}
