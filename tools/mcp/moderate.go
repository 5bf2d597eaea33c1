package mcp

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAsked is how many requests of a server may wait for their answers.
const maxAsked = 100

var errAsksTooMuch = fmt.Errorf("it had more than %d requests wait for answers", maxAsked)

// notices are the notifications that the gateway uses. The others are dropped before the library
// sees them, since it handles them slowly and would queue any number.
var notices = map[string]bool{
	toolsChanged: true, "notifications/cancelled": true, "notifications/elicitation/complete": true, "notifications/subscriptions/acknowledged": true,
}

const toolsChanged = "notifications/tools/list_changed"

// moderated is a transport on which a server can't make the gateway keep any number of messages.
type moderated struct {
	sdk.Transport
	changed <-chan struct{} // holds a value while the list of tools waits to be read again
}

// Connect opens the connection.
func (m *moderated) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := m.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &moderatedConnection{Connection: conn, changed: m.changed}, nil
}

type moderatedConnection struct {
	sdk.Connection
	changed <-chan struct{}
	asked   atomic.Int64 // requests of the server that wait for their answers
}

// Read returns the next message that matters. It fails if too many requests of the server wait.
func (c *moderatedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		message, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		request, is := message.(*jsonrpc.Request)
		switch {
		case !is:
			return message, nil
		case request.ID.IsValid():
			if c.asked.Add(1) > maxAsked {
				return nil, errAsksTooMuch
			}
			return message, nil
		case notices[request.Method] && (request.Method != toolsChanged || len(c.changed) == 0):
			return message, nil
		}
	}
}

// Write sends a message.
func (c *moderatedConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if _, is := message.(*jsonrpc.Response); is {
		c.asked.Add(-1)
	}
	return err
}
