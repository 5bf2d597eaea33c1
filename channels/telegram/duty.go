package telegram

import (
	"context"
	"errors"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/cluster"
	"parley/conversation/retry"
	"parley/internal/clock"
)

// Where several nodes share a database, all of them send for a bot. Only one, the holder of a role of the
// cluster, fetches its updates. The store refuses what a former holder writes once another node may have the role.

// fetchUpdates polls, or keeps the webhook set, while this node has the role, until ctx ends.
func (c *Channel) fetchUpdates(ctx context.Context, me *self, accept channels.AcceptFunc) error {
	return c.node.Hold(ctx, c.cursorName()+":poll", func(ctx context.Context, role *cluster.Role) error {
		if c.node != nil {
			c.log.Info("this node fetches the bot's updates", "term", role.Term)
			defer c.log.Info("this node no longer fetches the bot's updates", "term", role.Term)
		}
		c.onDuty.Store(true)
		defer c.onDuty.Store(false)
		defer c.health.report()()
		if c.webhook.url != "" {
			return c.keepWebhook(ctx)
		}
		return c.poll(ctx, role, me, accept)
	})
}

// checkRole reads from the database whether this node still has the role of polling, after Telegram has
// reported that another program polls. It retries while the database can't be reached. The error is
// cluster.ErrLost or the end of ctx.
func (c *Channel) checkRole(ctx context.Context, role *cluster.Role) (lost error) {
	err := retry.Persist(ctx, c.log, "read which node polls for the bot", func() error {
		lost = role.Check(ctx)
		if errors.Is(lost, cluster.ErrLost) {
			return nil
		}
		return lost
	})
	if err != nil {
		return err
	}
	return lost
}

// standBy calls getMe from time to time while another node fetches the updates, until ctx ends. Without polls,
// this is how the node tells an outage of Telegram from a message that Telegram refuses.
func (c *Channel) standBy(ctx context.Context) error {
	for c.node != nil {
		if err := clock.Sleep(ctx, watchEvery); err != nil {
			return err
		}
		if c.onDuty.Load() {
			continue
		}
		err := c.persist(ctx, func(ctx context.Context) error {
			return c.api.call(ctx, requestTimeout, "getMe", nil, &tgbotapi.User{})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shareRate takes this node's part of the messages that Telegram takes from the bot in a second.
func (c *Channel) shareRate() { c.pacer.share(len(c.node.Live())) }
