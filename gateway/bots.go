package gateway

import (
	"context"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/retry"
)

// announceBot stores which bot serves a channel from now on, and warns the operator
// if it is not the one from before. It retries store errors until ctx ends.
func (g *Gateway) announceBot(ctx context.Context, bot conversation.Account) {
	var found bots.Takeover
	err := retry.Persist(ctx, g.log, "store which bot serves "+bot.Channel, func() (err error) {
		found, err = bots.New(g.store).Begin(ctx, bot)
		return err
	})
	if err != nil {
		return // the gateway ends
	}
	log := g.log.With("channel", bot.Channel, "bot_id", bot.ID)
	if found.Former != "" {
		log.Warn("bot token changed to another bot: people paired with the former bot must pair with this one, "+
			"and what the former bot has not answered or sent waits for its token", "former_bot_id", found.Former)
	}
	for _, left := range found.Left {
		log.Warn("messages or replies wait for a bot that this gateway does not serve: start a gateway with its token, or see `gateway bots`",
			"waits_for_bot_id", left.Account, "inbox_waiting", left.Waiting, "outbox_due", left.Due)
	}
}
