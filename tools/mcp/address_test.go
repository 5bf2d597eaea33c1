package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/tools/mcp/mcptest"
)

// serveAt runs a server at an address, which may change what answers there.
func serveAt(t *testing.T, handler http.Handler, change func(*Config, *Options)) (h *harness, replace func(http.Handler)) {
	t.Helper()
	var current atomic.Pointer[http.Handler]
	current.Store(&handler)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*current.Load()).ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	h = serve(t, "", func(c *Config, o *Options) {
		c.Command, c.Args, c.URL = "", nil, web.URL
		if change != nil {
			change(c, o)
		}
	})
	return h, func(handler http.Handler) { current.Store(&handler) }
}

// shopAt returns the handler of a server with sessions of its own, which knows none of another one's.
func shopAt(folder string) http.Handler {
	shop := mcptest.New(folder)
	shop.AddReceivingMiddleware(withoutDiscovery)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return shop }, nil)
}

// A server at an address that was restarted does not know its session any more. The next call is made in a
// new session: people notice nothing, and no tool has been called twice.
func TestSessionThatTheServerForgot(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	h, replace := serveAt(t, shopAt(folder), nil)
	h.await()
	for i, tool := range []string{"pay", "look", "pay", "look"} {
		if text, err := h.call("shop_"+tool, "{}"); err != nil || text != "did "+tool {
			t.Errorf("call %d of %s: %q, %v", i, tool, text, err)
		}
		replace(shopAt(folder))
	}
	if effects := strings.Join(mcptest.Lines(folder, "effects"), ","); effects != "pay,look,pay,look" {
		t.Errorf("the server was called as %s", effects)
	}
}

// withoutDiscovery refuses the request by which the protocol of 2026 begins, which has no sessions.
func withoutDiscovery(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if method == "server/discover" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
		}
		return next(ctx, method, r)
	}
}

// rawShop answers requests by hand: the calls of tools by call, and the stream that a client opens by stream.
func rawShop(call func(http.ResponseWriter, json.RawMessage), stream func(http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && stream != nil {
			w.Header().Set("Content-Type", "text/event-stream")
			stream(w)
			return
		}
		var message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&message) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch message.Method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "1")
			answer(w, message.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`)
		case "tools/list":
			answer(w, message.ID, `{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"pay","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			call(w, message.ID)
		case "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, message.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
}

func answer(w io.Writer, id json.RawMessage, result string) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// A connection that breaks in the middle of a call leaves its outcome open. What only reads is called again
// at once; of a payment the model is told that it may have been made, and not that it was refused. An answer
// that says why the server fails reaches the model.
func TestConnectionThatBreaksDuringACall(t *testing.T) {
	t.Parallel()
	const unknown = "whether it was done is not known"
	for name, tt := range map[string]struct {
		fail      func(http.ResponseWriter)
		look, pay string
	}{
		"before an answer": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "ok", unknown},
		"in its stream": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "ok", unknown},
		"busy":       {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, "Service Unavailable", "Service Unavailable"},
		"redirected": {func(w http.ResponseWriter) { w.Header().Set("Location", "http://other.example/"); w.WriteHeader(307) }, "it redirects to other.example", "it redirects to other.example"},
	} {
		for tool, want := range map[string]string{"look": tt.look, "pay": tt.pay} {
			var calls atomic.Int64
			h, _ := serveAt(t, rawShop(func(w http.ResponseWriter, id json.RawMessage) {
				if calls.Add(1) == 1 {
					tt.fail(w)
				}
				answer(w, id, `{"content":[{"type":"text","text":"ok"}]}`)
			}, nil), nil)
			h.await()
			if text, err := h.call("shop_"+tool, "{}"); !strings.Contains(text, want) || want == "ok" && err != nil {
				t.Errorf("%s, %s: %q, %v; want %q", name, tool, text, err, want)
			}
			if n := calls.Load(); n > 1 && want != "ok" {
				t.Errorf("%s, %s: %d calls", name, tool, n)
			}
		}
	}
}

// A server at an address can't make the gateway run out of memory or of files: a message without an end, and
// requests without a number, end the connection.
func TestFloodOfAServerAtAnAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it takes seconds")
	}
	for name, send := range map[string]func(io.Writer, int) error{
		"endless line": func(w io.Writer, _ int) error {
			_, err := io.WriteString(w, strings.Repeat("data: x", 1<<10))
			return err
		},
		"endless event": func(w io.Writer, _ int) error {
			_, err := io.WriteString(w, "data: "+strings.Repeat("x", 1<<10)+"\r\n")
			return err
		},
		"requests": func(w io.Writer, n int) error {
			_, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", n)
			return err
		},
	} {
		before, goroutines := memory(), runtime.NumGoroutine()
		h, _ := serveAt(t, rawShop(nil, func(w http.ResponseWriter) {
			for n := 0; send(w, n) == nil; n++ {
			}
		}), func(c *Config, _ *Options) { c.Eager = true })
		go h.Run(t.Context())
		eventually(t, "the end of the connection after "+name, func() bool {
			if used := memory() - before; used > 256<<20 {
				t.Fatalf("%s: %d MiB are held", name, used>>20)
			}
			if more := runtime.NumGoroutine() - goroutines; more > 5000 {
				t.Fatalf("%s: %d goroutines more", name, more)
			}
			return h.Status()[0].LastError != ""
		})
		h.Close()
	}
}

// The key in the address of a server stays out of errors, which the model, the log and /readyz show.
func TestKeyInAnAddressIsNotShown(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-k3y"
	var closed atomic.Bool
	h, replace := serveAt(t, rawShop(nil, nil), func(c *Config, _ *Options) { c.URL += "/mcp?api_key=" + secret })
	h.await()
	replace(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { closed.Store(true); panic(http.ErrAbortHandler) }))
	said := ""
	for range 2 {
		text, _ := h.call("shop_look", "{}")
		said += text
	}
	unreachable := serve(t, "", func(c *Config, _ *Options) {
		c.Command, c.Args, c.URL = "", nil, "http://user:"+secret+"@127.0.0.1:1/mcp?api_key="+secret
	})
	_, err := unreachable.Probe(t.Context(), "shop")
	said += fmt.Sprint(err, unreachable.Status(), h.Status()) + unreachable.log.String() + h.log.String()
	if !closed.Load() || strings.Contains(said, secret) || !strings.Contains(said, "127.0.0.1:1/mcp") {
		t.Errorf("shown is %s", said)
	}
}
