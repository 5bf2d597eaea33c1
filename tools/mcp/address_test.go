package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
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
