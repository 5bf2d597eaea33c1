package telegram

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/retry"
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

// read returns the messages of an update that are for the bot and whose sender may talk to it: one
// message, or for an album also the messages that were held. An error is the end of ctx.
func (c *Channel) read(ctx context.Context, me *self, u update) (list []conversation.Inbound, err error) {
	if err := c.storeMigration(ctx, u.Message); err != nil {
		return nil, err
	}
	c.learnTopic(u.Message)
	c.noteGroup(ctx, u.Message)
	if why := u.Message.whySkipped(); why != "" {
		c.skip(u, why)
		return nil, nil
	}
	if !c.isFor(me, u.Message) {
		ours, err := c.isOurs(ctx, u)
		ours = ours || c.comments.precede(u.Message)
		if err == nil && !ours {
			c.skip(u, "in a group, not to the bot")
			return c.aside(ctx, u.Message)
		}
		if err != nil {
			return nil, err
		}
	}
	c.comments.note(u.Message)
	said := []update{u}
	if id := u.Message.album(); id != "" && u.Message.isGroup() {
		said = append(c.albums.claim(id, time.Now()), u)
	}
	for _, u := range said {
		in, ok, err := c.inbound(ctx, me, u, u.Message)
		if err != nil {
			return nil, err
		}
		if ok && !c.refusedAsTalk(u.Message, in) {
			list = append(list, in)
		}
	}
	if len(list) == 0 && !u.Message.isGroup() {
		c.asked.add(u)
	}
	return c.withAsked(ctx, me, u, list)
}

// withAsked returns the messages of a person together with those that the person wrote before
// being let in; a /start is answered first. The error is the end of ctx.
func (c *Channel) withAsked(ctx context.Context, me *self, u update, list []conversation.Inbound) ([]conversation.Inbound, error) {
	if len(list) == 0 || u.Message.isGroup() {
		return list, nil
	}
	var before []conversation.Inbound
	for _, u := range c.asked.take(u.Message.sender().ID) {
		in, ok, err := c.inbound(ctx, me, u, u.Message)
		if err != nil {
			return nil, err
		}
		if ok {
			before = append(before, in)
		}
	}
	if command, _ := list[0].Command(); command.Name == "start" {
		return append(list, before...), nil
	}
	return append(before, list...), nil
}

// edited stores the new text of an edited message. If the edit addresses the bot for the
// first time, the message is returned like a new one; the store drops it if it has it
// already. The error is the end of ctx.
func (c *Channel) edited(ctx context.Context, me *self, u update) (list []conversation.Inbound, err error) {
	m := u.Edited
	at := unixTime(m.EditDate)
	why := m.whySkipped()
	if why == "" && (at.IsZero() || m.Location != nil) { // a live location changes by itself
		why = "not edited by a person"
	}
	if why != "" {
		c.skip(u, why)
		return nil, nil
	}
	in, ok, err := c.inbound(ctx, me, u, m)
	if err != nil || !ok {
		return nil, err
	}
	text, isTalk := in.Text, false
	if !c.isFor(me, m) {
		if isTalk, err = c.isTalk(ctx, m); err != nil {
			return nil, err
		}
	}
	if isTalk {
		text = m.talk()
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	err = retry.Persist(ctx, c.log, "store an edit", func() error {
		return c.messages.Edit(ctx, c.account, in.SourceID, text, at)
	})
	if err != nil && !conversation.IsDamaged(err) {
		return nil, err
	}
	if !c.isFor(me, m) || at.Sub(in.At) > editLife || strings.TrimSpace(in.Text) == "" {
		return nil, nil
	}
	in.NeverCommand = true // a text that becomes a command by an edit is none
	return []conversation.Inbound{in}, nil
}

// editLife is for how long after it was written an edit may make a message one for
// the bot.
const editLife = 24 * time.Hour

func (c *Channel) skip(u update, why string) {
	c.log.Debug("update skipped", "update_id", u.ID, "reason", why)
}

// whySkipped returns why a message can't be for the assistant, and "" when it may be.
func (m *message) whySkipped() string {
	if m == nil {
		return "not a message"
	}
	from := m.sender()
	switch {
	case from == nil || m.Chat.ID == 0 || m.ID == 0 && m.EphemeralID == 0:
		return "no sender, chat or id"
	case from.IsBot:
		return "from a bot"
	case m.Chat.Type == "channel":
		return "in a channel"
	}
	return ""
}

// inbound returns the message of an update as it is accepted. It returns false when
// nobody wrote it, or somebody who may not talk. The error is the end of ctx.
func (c *Channel) inbound(ctx context.Context, me *self, u update, m *message) (in conversation.Inbound, ok bool, err error) {
	text := m.textFor(me)
	files := attachments(c.account, m.Chat.ID, m.ID, m.files(m.ID))
	if len(files) == 0 && m.lines() == "" {
		if more := u.describe(strings.TrimSpace(text) != ""); more != "" {
			text = joined(strings.TrimSpace(text), more)
		}
	}
	if strings.TrimSpace(text) == "" && len(files) == 0 {
		c.skip(u, "a service message")
		return in, false, nil
	}
	if m.isForwarded() {
		text = channels.Forwarded(m.forwardedFrom()) + text
	}
	in = m.inbound(m.sender(), text)
	in.Account, in.Attachments = c.account.ID, files
	if ok, err := c.admits(ctx, me, m, in); err != nil || !ok {
		return in, false, err
	}
	if in.Place, err = c.place(ctx, m, m.address()); err != nil {
		return in, false, err
	}
	if m.isGroup() {
		in.Talk = c.talk
	}
	in, err = c.withReply(ctx, m, c.together(m, in))
	return in, err == nil, err
}

func (m *message) inbound(from *account, text string) conversation.Inbound {
	to := m.address()
	return conversation.Inbound{
		Key:      to.key(),
		SourceID: m.sourceID(),
		Address:  to.String(),
		Sender:   conversation.Sender{ID: from.id(), Name: from.name()},
		Group:    m.isGroup(),
		Text:     text,
		At:       unixTime(m.Date),

		NeverCommand: m.isSecondHand(),
	}
}

// address returns where the reply to a message goes.
func (m *message) address() address {
	to := address{Chat: m.Chat.ID}
	if m.IsTopicMessage {
		to.Topic = m.ThreadID
	}
	switch {
	case m.EphemeralID != 0:
		to.Alone = &alone{User: m.sender().ID, ReplyTo: m.EphemeralID}
	case m.isGroup():
		to.ReplyTo = m.ID
	}
	return to
}

// isSecondHand reports whether the sender did not write the text for this chat:
// it was forwarded, another bot wrote it, or a channel posted it. An anonymous
// administrator of the group, who writes in the group's own name, is a person
// like any other.
func (m *message) isSecondHand() bool {
	return m.isForwarded() || isSet(m.ViaBot) || m.SenderChat != nil && m.SenderChat.ID != m.Chat.ID
}
