package telegram

import (
	"context"
	"slices"
	"strconv"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
)

// IsAdmin reports whether somebody administers the group of an address. Whoever
// writes in the group's own name is an anonymous administrator.
func (c *Channel) IsAdmin(ctx context.Context, addr, user string) (bool, error) {
	to, err := parseAddress(addr)
	if err != nil || !isGroup(to.Chat) {
		return false, err
	}
	if user == strconv.FormatInt(to.Chat, 10) {
		return true, nil
	}
	to.Chat = c.migrations.currentID(to.Chat)
	admins, known := c.admins.Recall(to.Chat)
	if !known {
		admins, err = c.askAdmins(ctx, to.Chat)
		if refused := refusal(err); refused != nil && refused.MigrateToChatID != 0 {
			admins, err = c.askAdmins(ctx, refused.MigrateToChatID)
		}
		if err != nil {
			return false, err
		}
		c.admins.Remember(to.Chat, admins)
	}
	return slices.Contains(admins, user), nil
}

// askAdmins asks for the list of administrators. Telegram answers a question
// about a single member only to bots that are administrators.
// https://core.telegram.org/bots/api#getchatadministrators
func (c *Channel) askAdmins(ctx context.Context, chat int64) ([]string, error) {
	var members []struct {
		User account `json:"user"`
	}
	err := c.api.call(ctx, requestTimeout, "getChatAdministrators", tgbotapi.Params{"chat_id": strconv.FormatInt(chat, 10)}, &members)
	var admins []string
	for _, m := range members {
		admins = append(admins, m.User.id())
	}
	return admins, err
}
