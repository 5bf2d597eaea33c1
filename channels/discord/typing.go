package discord

import (
	"context"
	"net/http"
	"time"

	"parley/internal/clock"

	"github.com/bwmarrin/discordgo"
)

const (
	typingAfter = 400 * time.Millisecond // quick answers need no sign
	typingEvery = 8 * time.Second        // the sign lasts 10 s: https://discord.com/developers/docs/resources/channel#trigger-typing-indicator
)

// Typing shows "Parley is typing…" in the place until ctx ends, unless it ends
// at once. Interactions show that the bot is thinking, and need none. Failures
// don't matter.
func (c *Channel) Typing(ctx context.Context, addr string) {
	to, err := parseAddress(addr)
	if err != nil || to.Answer != nil {
		return
	}
	timer := time.AfterFunc(typingAfter, func() { c.keepTyping(ctx, to) })
	context.AfterFunc(ctx, func() { timer.Stop() })
}

func (c *Channel) keepTyping(ctx context.Context, to address) {
	to, err := c.threads.open(ctx, c, to)
	if err != nil {
		return
	}
	endpoint := discordgo.EndpointChannelTyping(to.Channel)
	for ctx.Err() == nil {
		if err := c.api.call(ctx, request{method: http.MethodPost, url: endpoint, limit: endpoint}, nil); err != nil && ctx.Err() == nil {
			c.Log.Debug("typing indicator not sent", "channel_id", to.Channel, "error", err)
		}
		if clock.Sleep(ctx, typingEvery) != nil {
			return
		}
	}
}
