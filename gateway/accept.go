package gateway

import (
	"context"

	"parley/channels"
	"parley/conversation"
)

// accept stores a batch of messages, each for its session, and then tells the
// router about them. Only what is stored is acknowledged to the platform.
func (g *Gateway) accept(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error {
	stored, err := g.store.Accept(ctx, cursors, g.shared.joinAll(batch)...)
	if err != nil && len(stored) == 0 {
		return err
	}
	g.router.Accepted(stored...)
	if len(stored) > 0 {
		g.metrics.Accepted(stored[0].Channel(), len(stored)) // all messages of a batch come from one channel
	}
	for i, in := range stored {
		if i == 0 || in.Key != stored[i-1].Key {
			g.feed.Changed(in.Key)
		}
	}
	return err
}

var _ channels.AcceptFunc = (*Gateway)(nil).accept
