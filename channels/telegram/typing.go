package telegram

import (
	"context"
	"strconv"
	"time"

	"parley/internal/clock"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
)

const (
	typingAfter = 400 * time.Millisecond  // quick answers need no sign
	typingEvery = 4500 * time.Millisecond // the sign lasts 5 s: https://core.telegram.org/bots/api#sendchataction
)

// Typing shows "typing…" in the chat or topic until ctx ends, unless that is at
// once. Failures are ignored.
func (c *Channel) Typing(ctx context.Context, addr string) {
	to, err := parseAddress(addr)
	if err != nil {
		return
	}
	if chat := c.migrations.currentID(to.Chat); chat != to.Chat {
		to = address{Chat: chat}
	}
	timer := time.AfterFunc(typingAfter, func() { c.keepTyping(ctx, to) })
	context.AfterFunc(ctx, func() { timer.Stop() })
}

func (c *Channel) keepTyping(ctx context.Context, to address) {
	params := tgbotapi.Params{"chat_id": strconv.FormatInt(to.Chat, 10), "action": "typing"}
	params.AddNonZero64("message_thread_id", to.Topic)
	for ctx.Err() == nil {
		if c.pacer.blocked(to.Chat) <= 0 {
			if err := c.api.call(ctx, typingEvery, "sendChatAction", params, nil); err != nil && ctx.Err() == nil {
				c.log.Debug("typing indicator not sent", "chat", to.Chat, "error", err)
			}
		}
		if clock.Sleep(ctx, typingEvery) != nil {
			return
		}
	}
}
