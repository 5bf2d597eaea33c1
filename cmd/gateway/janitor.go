package main

import (
	"context"
	"time"

	"parley/cmd/gateway/config"
	"parley/conversation"
)

// firstCleanup is how long after the start the first cleanup comes: late enough
// not to stand in the way of what was left waiting, and early enough for a
// gateway that is often started anew.
const firstCleanup = time.Minute

// telegramKeeps is how long Telegram keeps an update that was not taken:
// https://core.telegram.org/bots/api#getting-updates
const telegramKeeps = 24 * time.Hour

// rules say what the configuration keeps, and for how long.
func rules(cfg config.Config) conversation.Rules {
	return conversation.Rules{
		Expiration: cfg.Conversation.SessionExpiration,
		Retention:  cfg.Conversation.Retention,
		Redelivery: max(telegramKeeps, cfg.Discord.CatchUp),
	}
}

// tidy deletes what is no longer kept, a while after the start and then every
// cleanup_interval, until ctx ends.
func (g *gateway) tidy(ctx context.Context, first time.Duration) {
	due := time.NewTimer(min(first, g.cfg.Conversation.CleanupInterval))
	defer due.Stop()
	for {
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
		g.cleanUp(ctx)
		due.Reset(g.cfg.Conversation.CleanupInterval)
	}
}

func (g *gateway) cleanUp(ctx context.Context) {
	cleaned, err := g.store.Clean(ctx, rules(g.cfg), func(conversation.Outdated) {})
	if cleaned != (conversation.Cleaned{}) {
		g.log.Info("deleted what is no longer kept", "conversations", cleaned.Conversations, "messages", cleaned.Messages,
			"inbound", cleaned.Inbound, "deliveries", cleaned.Deliveries, "pairing_codes", cleaned.Pairings)
	}
	if err != nil && ctx.Err() == nil {
		g.log.Warn("the cleanup did not come to its end; trying again", "wait", g.cfg.Conversation.CleanupInterval, "error", err)
	}
}
