package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/tools"
)

// callTool calls a tool of the server.
func (s *server) callTool(ctx context.Context, params *sdk.CallToolParams, repeatable bool) (tools.Result, error) {
	if input, given := tools.InputOf(ctx); given {
		params.InputResponses, params.RequestState = responsesOf(input), input.State
	}
	got, err := s.conduct(ctx, func(ctx context.Context) (any, error) {
		if err := s.unchanged(ctx, params.Name); err != nil {
			return nil, err
		}
		return attempts(ctx, s, repeatable, func(ctx context.Context, session *sdk.ClientSession) (*sdk.CallToolResult, error) {
			return session.CallTool(ctx, params)
		})
	})
	if err != nil {
		return tools.Result{}, err
	}
	result := got.(*sdk.CallToolResult)
	if result.IsError {
		return tools.Result{}, errors.New(resultOf(result).Text)
	}
	return resultOf(result), nil
}

// ask sends a request to the server and returns its result. The error is in words for the
// model, or tools.NeedsInput.
func ask[T any](ctx context.Context, s *server, repeatable bool, request func(context.Context, *sdk.ClientSession) (T, error)) (result T, err error) {
	got, err := s.conduct(ctx, func(ctx context.Context) (any, error) { return attempts(ctx, s, repeatable, request) })
	if err != nil {
		return result, err
	}
	return got.(T), nil
}

// attempts sends a request to the server. If the connection ends meanwhile and the request may be
// repeated, or if the server knows the session no longer, it sends it once more.
func attempts[T any](ctx context.Context, s *server, repeatable bool, request func(context.Context, *sdk.ClientSession) (T, error)) (result T, err error) {
	for again := false; ; again = true {
		conn, err := s.use(ctx)
		if err != nil {
			return result, err
		}
		result, err = request(ctx, conn.session)
		if err == nil {
			return result, s.inputNeeded(ctx, result)
		}
		var refused *jsonrpc.Error
		switch {
		case ctx.Err() != nil:
			go s.check(conn)
			return result, context.Cause(ctx)
		case errors.Is(err, sdk.ErrSessionMissing) && !again: // the server has not made the call
			s.forgotten(conn)
			continue
		case conn.process == nil && isBroken(err):
			if repeatable && !again {
				continue
			}
			if !repeatable {
				return result, fmt.Errorf("the connection to the server %s broke while this ran: whether it was done is not known", s.name)
			}
			return result, fmt.Errorf("the connection to the server %s broke: %w", s.name, s.hidden(err))
		case errors.As(err, &refused) && refused.Code == codeUnreadable:
			return result, fmt.Errorf("the server %s answered, but %s: whether it was done is not known", s.name, refused.Message)
		case errors.As(err, &refused) && refused.Code != codeNotSent:
			return result, fmt.Errorf("the server %s refused the call: %s", s.name, refused.Message)
		case conn.process == nil && !isClosed(conn, err):
			return result, fmt.Errorf("the server %s did not answer as it should: %w", s.name, s.hidden(err))
		}
		s.ended(conn)
		if !repeatable || again {
			return result, fmt.Errorf("the server %s ended while this ran: whether it was done is not known", s.name)
		}
	}
}

// codeNotSent is the code by which the library marks that a request to an address has failed, while the
// connection goes on: the server has not answered, or with a status of HTTP.
const codeNotSent = -32005

// isBroken reports whether a request to an address was sent, perhaps, and its answer was not read to its end.
func isBroken(err error) bool {
	var dialed *net.OpError
	var sent *url.Error
	switch {
	case errors.Is(err, errRedirected), errors.As(err, &dialed) && dialed.Op == "dial":
		return false
	case errors.As(err, &sent):
		return true
	}
	return strings.Contains(err.Error(), "request terminated without response") // the library has no variable for it
}

// isClosed reports whether a request failed since its connection has ended.
func isClosed(conn *connection, err error) bool {
	select {
	case <-conn.done:
		return true
	default:
		return errors.Is(err, sdk.ErrConnectionClosed)
	}
}

// check ends a connection whose server shows no sign of life after a call that was ended early,
// so that the next call starts it anew.
func (s *server) check(conn *connection) {
	ctx, cancel := context.WithTimeout(s.ctx, pingTimeout)
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		var refused *jsonrpc.Error
		if err := conn.session.Ping(ctx, nil); err != nil && !errors.As(err, &refused) {
			<-ctx.Done()
		}
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
	if ctx.Err() != nil && s.ctx.Err() == nil {
		s.log.Warn("MCP server does not answer")
		s.ended(conn)
	}
}
