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

// Where several nodes share a database, all of them send for a bot, and one of them, which has a role of the
// cluster, fetches its updates. What the holder stores is refused once another node may have the role.

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

// checkRole reads whether this node still is the one that polls: Telegram says that another program does. It
// retries while the database can't be reached. The error is cluster.ErrLost or the end of ctx.
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

// standBy asks Telegram now and then for the bot while another node fetches its updates, until ctx ends: without
// polls, nothing else tells an outage of Telegram's from a message that it does not take.
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
