package telegram

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/plaintext"
)

// The part of the Bot API's types that the adapter reads. The library's own
// are older than topics: https://core.telegram.org/bots/api#message
type (
	update struct {
		ID      int64    `json:"update_id"` // 0 when there is none that could be one
		Message *message `json:"message"`

		raw    json.RawMessage
		broken bool // a field has another type than documented; the others are read
	}

	message struct {
		ID             int64    `json:"message_id"`
		ThreadID       int64    `json:"message_thread_id"`
		IsTopicMessage bool     `json:"is_topic_message"`
		From           *account `json:"from"`
		SenderChat     *account `json:"sender_chat"` // for who writes in the name of a group or channel
		Chat           account  `json:"chat"`
		Date           int64    `json:"date"`
		ReplyTo        *replied `json:"reply_to_message"`
		Text           string   `json:"text"`
		Entities       []entity `json:"entities"`
		Caption        string   `json:"caption"`
		MigrateTo      int64    `json:"migrate_to_chat_id"`
		MigrateFrom    int64    `json:"migrate_from_chat_id"`
		CaptionEnts    []entity `json:"caption_entities"`

		forwarding
		ViaBot json.RawMessage `json:"via_bot"` // the bot that the sender had write the text
	}

	// forwarding is what a forwarded message has, now and on servers from before
	// Bot API 7.0. Only whether a field is given counts.
	forwarding struct {
		Origin     json.RawMessage `json:"forward_origin"`
		Date       json.RawMessage `json:"forward_date"`
		From       json.RawMessage `json:"forward_from"`
		FromChat   json.RawMessage `json:"forward_from_chat"`
		SenderName json.RawMessage `json:"forward_sender_name"`
		Automatic  json.RawMessage `json:"is_automatic_forward"` // a channel's post, in the group that discusses it
	}

	// account is a user or a chat.
	account struct {
		ID        int64  `json:"id"`
		IsBot     bool   `json:"is_bot"`
		Type      string `json:"type"`
		Title     string `json:"title"`
		FirstName string `json:"first_name"`
		LastName  string `json:"last_name"`
		Username  string `json:"username"`
	}

	replied struct {
		ID           int64     `json:"message_id"`
		From         *account  `json:"from"`
		TopicCreated *struct{} `json:"forum_topic_created"`
	}

	// entity is a marked stretch of a text, in UTF-16 code units.
	entity struct {
		Type   string   `json:"type"`
		Offset int      `json:"offset"`
		Length int      `json:"length"`
		User   *account `json:"user"`
	}
)

// maxUpdateID is far above Telegram's ids, which have 32 bits, and far below the
// largest offset that can be counted.
const maxUpdateID = 1 << 53

// decode reads one update as far as it can be read.
func (c *Channel) decode(raw json.RawMessage) update {
	u := update{raw: raw}
	if err := json.Unmarshal(raw, &u); err != nil {
		u.broken = true
		c.log.Warn("an update is not as documented", "update_id", u.ID, "error", err)
	}
	if u.ID < 0 || u.ID > maxUpdateID {
		c.log.Warn("an update has an id that Telegram does not give", "update_id", u.ID)
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
	if strings.TrimSpace(text) == "" {
		if text = u.describe(); text == "" {
			return skip("a service message")
		}
	}
	if m.isForwarded() {
		text = "[forwarded]\n" + text
	}
	in := m.inbound(from, text)
	in.Account = c.account.ID
	return in, true
}

func (m *message) inbound(from *account, text string) conversation.Inbound {
	to := address{Chat: m.Chat.ID}
	if m.IsTopicMessage {
		to.Topic = m.ThreadID
	}
	if m.isGroup() {
		to.ReplyTo = m.ID
	}
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

// isSecondHand reports whether the sender did not write the text for this chat:
// it was forwarded, another bot wrote it, or a channel posted it. An anonymous
// administrator of the group, who writes in the group's own name, is a person
// like any other.
func (m *message) isSecondHand() bool {
	return m.isForwarded() || given(m.ViaBot) || m.SenderChat != nil && m.SenderChat.ID != m.Chat.ID
}

func (f *forwarding) isForwarded() bool {
	return slices.ContainsFunc([]json.RawMessage{f.Origin, f.Date, f.From, f.FromChat, f.SenderName, f.Automatic}, given)
}

// given reports whether a field has a value other than null and false.
func given(field json.RawMessage) bool {
	return len(field) > 0 && string(field) != "null" && string(field) != "false"
}

// lastDate is the end of the year 9999 in Unix time: a later one is no date.
const lastDate = 253402300799

// sentAt returns when the message was written, the zero time when it does not say.
func (m *message) sentAt() time.Time {
	if m.Date <= 0 || m.Date > lastDate {
		return time.Time{}
	}
	return time.Unix(m.Date, 0)
}

func (m *message) isGroup() bool { return isGroup(m.Chat.ID) }

// sender returns who wrote the message: for an anonymous administrator the group,
// since "from" names a bot of Telegram's.
func (m *message) sender() *account {
	if m.SenderChat != nil {
		return m.SenderChat
	}
	return m.From
}

func (a *account) id() string { return strconv.FormatInt(a.ID, 10) }

// name returns the name that others in the chat see.
func (a *account) name() string {
	for _, name := range []string{a.FirstName + " " + a.LastName, a.Title, a.Username} {
		if name = plaintext.OneLine(name); name != "" {
			return name
		}
	}
	return a.id()
}

// handle returns the @username, "" when there is none.
func (a *account) handle() string {
	if a.Username == "" {
		return ""
	}
	return "@" + a.Username
}
