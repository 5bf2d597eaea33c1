// Package hosted holds what the channels web and api share, which the gateway itself
// serves over HTTP: the gate that takes messages while a channel runs, the files that
// are uploaded with messages, and a client's position in a session's events.
package hosted

import (
	"context"
	"errors"
	"sync/atomic"

	"parley/channels"
	"parley/conversation"
)

// ErrClosed says that no message is taken: the gateway starts, or ends.
var ErrClosed = errors.New("the channel is closed")

// Gate takes messages while its channel runs. The zero value is closed.
type Gate struct{ open atomic.Pointer[opening] }

type opening struct {
	accept channels.AcceptFunc
	ending <-chan struct{}
}

// Open lets the gate accept messages until ctx ends. It does not block.
func (g *Gate) Open(ctx context.Context, accept channels.AcceptFunc) {
	g.open.Store(&opening{accept: accept, ending: ctx.Done()})
}

// Accept stores messages, in order. It drops those that are stored already. It
// returns ErrClosed while the gate is closed.
func (g *Gate) Accept(ctx context.Context, batch ...conversation.Inbound) error {
	if !g.IsOpen() {
		return ErrClosed
	}
	return g.open.Load().accept(ctx, nil, batch...)
}

// IsOpen reports whether the gate takes messages now.
func (g *Gate) IsOpen() bool { return g.open.Load() != nil && !g.IsEnding() }

// HasOpened reports whether the gate takes messages, or has taken some until it ended.
func (g *Gate) HasOpened() bool { return g.open.Load() != nil }

// Ending returns a channel that is closed when the gate stops taking messages.
// It is nil, which is never closed, before Open.
func (g *Gate) Ending() <-chan struct{} {
	if open := g.open.Load(); open != nil {
		return open.ending
	}
	return nil
}

// IsEnding reports whether the gate was open and takes messages no more.
func (g *Gate) IsEnding() bool {
	select {
	case <-g.Ending():
		return true
	default:
		return false
	}
}
