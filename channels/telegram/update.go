package telegram

import (
	"encoding/json"
	"strconv"
	"strings"

	"parley/channels"
	"parley/conversation"
)

// maxUpdateID is far above Telegram's ids, which have 32 bits, and far below the
// largest offset that can be counted.
const maxUpdateID = 1 << 53

// decode reads one update as far as it can be read.
func (c *Channel) decode(raw json.RawMessage) update {
	u := update{raw: raw}
	if err := json.Unmarshal(raw, &u); err != nil {
		c.log.Warn("undocumented update format", "update_id", u.ID, "error", err)
	}
	if u.ID < 0 || u.ID > maxUpdateID {
		c.log.Warn("update id out of range", "update_id", u.ID)
		u.ID = 0
	}
	return u
}

// inbound returns the message of an update as it is accepted. It returns false
// when nothing in it is for the assistant.
func (c *Channel) inbound(me *self, u update) (conversation.Inbound, bool) {
	skip := func(why string) (conversation.Inbound, bool) {
		c.log.Debug("update skipped", "update_id", u.ID, "reason", why)
		return conversation.Inbound{}, false
	}
	m := u.Message
	if m == nil {
		return skip("not a message")
	}
	from := m.sender()
	switch {
	case from == nil || m.Chat.ID == 0 || m.ID == 0:
		return skip("no sender, chat or id")
	case from.IsBot:
		return skip("from a bot")
	case m.Chat.Type == "channel":
		return skip("in a channel")
	}
	text, addressed := m.forUs(me)
	if !addressed {
		return skip("in a group, not to the bot")
	}
	files := attachments(c.account, m.Chat.ID, m.ID, m.files(m.ID))
	if len(files) == 0 && m.lines() == "" {
		if more := u.describe(strings.TrimSpace(text) != ""); more != "" {
			text = joined(strings.TrimSpace(text), more)
		}
	}
	if strings.TrimSpace(text) == "" && len(files) == 0 {
		return skip("a service message")
	}
	if m.isForwarded() {
		text = channels.Forwarded(m.forwardedFrom()) + text
	}
	in := m.inbound(from, text)
	in.Account, in.Attachments = c.account.ID, files
	return in, true
}

func (m *message) inbound(from *account, text string) conversation.Inbound {
	to := m.address()
	return conversation.Inbound{
		Key:      to.key(),
		SourceID: strconv.FormatInt(m.Chat.ID, 10) + ":" + strconv.FormatInt(m.ID, 10),
		Address:  to.String(),
		Sender:   conversation.Sender{ID: from.id(), Name: from.name()},
		Group:    m.isGroup(),
		Text:     text,
		At:       m.sentAt(),

		NeverCommand: m.isSecondHand(),
	}
}

// address returns where the reply to a message goes.
func (m *message) address() address {
	to := address{Chat: m.Chat.ID}
	if m.IsTopicMessage {
		to.Topic = m.ThreadID
	}
	if m.isGroup() {
		to.ReplyTo = m.ID
	}
	return to
}

// isSecondHand reports whether the sender did not write the text for this chat:
// it was forwarded, another bot wrote it, or a channel posted it. An anonymous
// administrator of the group, who writes in the group's own name, is a person
// like any other.
func (m *message) isSecondHand() bool {
	return m.isForwarded() || given(m.ViaBot) || m.SenderChat != nil && m.SenderChat.ID != m.Chat.ID
}
