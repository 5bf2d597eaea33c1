package gateway

import (
	"context"
	"time"

	"parley/conversation"
)

// health stores how a channel fares. A store that can't take it is no reason
// to hold up the channel.
func (g *Gateway) health(of conversation.Account) func(state, detail string) {
	return func(state, detail string) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := g.store.SetHealth(ctx, of, state, detail); err != nil {
			g.log.Warn("how a channel fares is not stored", "channel", of, "state", state, "error", err)
		}
	}
}
