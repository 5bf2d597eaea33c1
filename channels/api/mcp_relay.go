package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Relay serves MCP clients over a transport, such as standard input and output, and has a
// running gateway do what they ask for. target returns where that gateway serves HTTP,
// without a slash at the end, and its token; it is asked before each call, so that the
// gateway may be restarted meanwhile. Relay returns when the client has closed the
// connection.
func Relay(ctx context.Context, transport mcp.Transport, version string, target func(context.Context) (url, token string, err error)) error {
	r := &relay{version: version, target: target}
	server := New(Deps{Version: version}).newMCPServer()
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			switch params := request.GetParams().(type) {
			case *mcp.CallToolParamsRaw:
				return r.call(ctx, params), nil
			case *mcp.ReadResourceParams:
				return r.read(ctx, params)
			}
			return next(ctx, method, request)
		}
	})
	return server.Run(ctx, transport)
}

// relay asks a running gateway.
type relay struct {
	version string
	target  func(context.Context) (url, token string, err error)
}

// connect opens a connection to the gateway. The caller closes it.
func (r *relay) connect(ctx context.Context) (*mcp.ClientSession, error) {
	url, token, err := r.target(ctx)
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "parley", Version: r.version}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url + mcpPath, MaxRetries: -1, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer(token)},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("the gateway at %s can't be reached: %w", url, err)
	}
	return session, nil
}

// call has the gateway run a tool. A failure is told in words.
func (r *relay) call(ctx context.Context, params *mcp.CallToolParamsRaw) *mcp.CallToolResult {
	session, err := r.connect(ctx)
	if err == nil {
		defer session.Close()
		var result *mcp.CallToolResult
		if result, err = session.CallTool(ctx, &mcp.CallToolParams{Meta: params.Meta, Name: params.Name, Arguments: params.Arguments}); err == nil {
			return result
		}
	}
	failed := &mcp.CallToolResult{}
	failed.SetError(err)
	return failed
}

func (r *relay) read(ctx context.Context, params *mcp.ReadResourceParams) (*mcp.ReadResourceResult, error) {
	session, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	result, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: params.URI})
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		err = refused
	}
	return result, err
}

// bearer is a token that is sent with each request; "" is none.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(b)))
	}
	return http.DefaultTransport.RoundTrip(r)
}
