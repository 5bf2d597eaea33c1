package telegram

import (
	"context"
	"time"

	"parley/conversation"
)

// membership says that the bot was added to a chat, or removed from it:
// https://core.telegram.org/bots/api#chatmemberupdated
type membership struct {
	Chat account  `json:"chat"`
	From *account `json:"from"`
	Old  status   `json:"old_chat_member"`
	New  status   `json:"new_chat_member"`
}

type status struct {
	Status   string `json:"status"`
	IsMember bool   `json:"is_member"` // of a restricted one
}

// isIn reports whether the status is that of a member.
func (s status) isIn() bool {
	switch s.Status {
	case "creator", "administrator", "member":
		return true
	}
	return s.Status == "restricted" && s.IsMember
}

// joined logs that the bot was added to a group or removed from one, and introduces
// it where whoever added it, or the group, may talk to it. The error is the end of
// ctx.
func (c *Channel) joined(ctx context.Context, me *self, u update) error {
	m := u.Member
	if m.From == nil || !isGroup(m.Chat.ID) || m.Chat.Type == "channel" || m.Old.isIn() == m.New.isIn() {
		return nil
	}
	by := m.From.name()
	if !m.New.isIn() {
		c.log.Info("removed from a group", "chat", m.Chat.ID, "name", m.Chat.name(), "by", m.From.ID, "by_name", by)
		return nil
	}
	known, err := c.knows(ctx, &message{Chat: m.Chat}, m.From)
	if err != nil {
		return err
	}
	c.log.Info("added to a group", "chat", m.Chat.ID, "name", m.Chat.name(), "by", m.From.ID, "by_name", by, "let_in", known)
	if known {
		c.introduceIn(address{Chat: m.Chat.ID}, me)
	}
	return nil
}

// introductionTimeout is for how long an introduction is tried.
const introductionTimeout = 30 * time.Second

// introduceIn says how to talk to the bot. It does not block.
func (c *Channel) introduceIn(to address, me *self) {
	words := "Hello! Mention me, or reply to one of my messages, and I answer here. /help lists what I can do."
	if me.username != "" {
		words = "Hello! Begin a message with @" + me.username + ", or reply to one of mine, and I answer here. /help lists what I can do."
	}
	d := conversation.Delivery{Key: to.key(), Address: to.String(), Text: words}
	c.helpers.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), introductionTimeout)
		defer cancel()
		for _, part := range c.Split(d) {
			if _, err := c.Send(ctx, d, part); err != nil {
				c.log.Debug("introduction not sent", "chat", to.Chat, "error", err)
			}
		}
	})
}
