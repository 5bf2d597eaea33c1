package telegram

import (
	"context"
	"encoding/json"
	"strings"

	"parley/channels"
	"parley/channels/access"
	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/retry"
	"parley/plaintext"
)

// origin says where a forwarded message, or one that is replied to in another chat,
// comes from: https://core.telegram.org/bots/api#messageorigin
type origin struct {
	Type       string   `json:"type"`
	User       *account `json:"sender_user"`
	HiddenName string   `json:"sender_user_name"`
	SenderChat *account `json:"sender_chat"`
	Chat       *account `json:"chat"` // the channel that published the message
	Signature  string   `json:"author_signature"`
}

// readOrigin reads an origin as far as it can be read.
func readOrigin(raw json.RawMessage) origin {
	var o origin
	json.Unmarshal(raw, &o) // what does not fit is left out
	return o
}

// account returns the person, group or channel, nil where Telegram hides it.
func (o origin) account() *account {
	for _, a := range []*account{o.User, o.SenderChat, o.Chat} {
		if a != nil {
			return a
		}
	}
	return nil
}

// name returns the name of the person, group or channel, "" if Telegram does not say it.
func (o origin) name() string {
	a := o.account()
	if a == nil {
		return plaintext.Name(o.HiddenName)
	}
	name := a.name()
	if a.Type == "channel" {
		name = "the channel " + name
	}
	if by := plaintext.Name(o.Signature); by != "" {
		name += " (" + by + ")"
	}
	return name
}

// forwardedFrom returns who wrote a forwarded message, "" if Telegram does not say it.
func (f *forwarding) forwardedFrom() string {
	if name := readOrigin(f.Origin).name(); name != "" {
		return name
	}
	var hidden string
	if json.Unmarshal(f.SenderName, &hidden) == nil && plaintext.Name(hidden) != "" {
		return plaintext.Name(hidden)
	}
	var old origin // as servers from before Bot API 7.0 say it
	json.Unmarshal(f.From, &old.User)
	json.Unmarshal(f.FromChat, &old.Chat)
	return old.name()
}

// reply is the message, or the part of it, that another message replies to.
type reply struct {
	name  string   // name of the author
	by    *account // the author; nil if unknown
	text  string
	files []named
	own   bool // the sender has selected text as a part of the message
}

// repliedTo returns what the message replies to, nil for nothing. The service
// message that opened a topic is no message to reply to.
func (m *message) repliedTo() *reply {
	r := &reply{}
	switch {
	case m.ReplyTo != nil && m.ReplyTo.TopicCreated == nil:
		r.by = m.ReplyTo.sender()
		r.text = m.ReplyTo.said()
		r.files = m.ReplyTo.files(m.ReplyTo.ID)
		if r.by != nil {
			r.name = r.by.name()
		}
	case m.External != nil:
		from := readOrigin(m.External.Origin)
		r.by, r.name = from.account(), from.name()
		r.text = m.External.lines()
		r.files = m.External.files(m.ID)
	default:
		return nil
	}
	if m.Quote != nil && m.Quote.Text != "" {
		r.text = markdownOf(m.Quote.Text, m.Quote.Entities, 0)
		r.own = m.Quote.Manual
	}
	if r.name == "" {
		r.name = "somebody"
	}
	return r
}

// said returns the text of a message as people read it.
func (m *message) said() string {
	if m.isForwarded() {
		return channels.Forwarded(m.forwardedFrom()) + m.body(0)
	}
	return m.body(0)
}

// body returns the text of a message from byte from on, as Markdown, followed by lines for its
// other contents.
func (m *message) body(from int) string {
	text, entities := m.words()
	return joined(strings.ReplaceAll(markdownOf(text, entities, from), "\x00", ""), m.lines())
}

// words returns the text or the caption of a message.
func (m *message) words() (string, []entity) {
	if m.Text != "" {
		return m.Text, m.Entities
	}
	return m.Caption, m.CaptionEnts
}

// withReply puts the text that a message replies to above its own, and the files of that
// message before its own. It leaves out texts and files of people who may not talk to the
// bot, except for a part that the sender has selected, which counts as quoted by the sender.
// The error is the end of ctx.
func (c *Channel) withReply(ctx context.Context, m *message, in conversation.Inbound) (conversation.Inbound, error) {
	r := m.repliedTo()
	if _, command := in.Command(); r == nil || command {
		return in, nil
	}
	known, err := c.knows(ctx, m, r.by)
	if err != nil {
		return in, err
	}
	if !known && !r.own {
		r.text = ""
	}
	in.Text = channels.InReplyTo(r.name, r.text) + in.Text
	if known {
		in.Attachments = append(attachments(c.account, m.Chat.ID, m.ReplyTo.id(), r.files), in.Attachments...)
	}
	return in, nil
}

// id returns the id of a message, 0 for none.
func (m *message) id() int64 {
	if m == nil {
		return 0
	}
	return m.ID
}

// knows reports whether the author of a message that somebody replies to is the bot, or may talk
// to it. It returns an error only when ctx ends.
func (c *Channel) knows(ctx context.Context, m *message, author *account) (known bool, err error) {
	switch {
	case author == nil:
		return false, nil
	case author.ID == c.botID:
		return true, nil
	}
	v := access.Visitor{
		Sender: conversation.Sender{ID: author.id(), Name: author.name()}, Private: !m.isGroup(),
		Names: []access.Username{{Name: author.handle(), Holder: author.id()}},
	}
	if m.isGroup() && m.External == nil { // who may talk in this group may be quoted here
		v.IDs = []string{m.Chat.id()}
		v.Names = append(v.Names, access.Username{Name: m.Chat.handle(), Holder: m.Chat.id()})
	}
	err = retry.Persist(ctx, c.log, "see who may talk", func() error {
		known, err = c.access.Knows(ctx, v)
		if known || err != nil || !m.isGroup() || m.External != nil {
			return err
		}
		former, err := c.formerIDs(ctx, m.Chat.ID)
		known = c.access.AllowsIDs(former...)
		return err
	})
	if conversation.IsDamaged(err) {
		return false, nil
	}
	return known, err
}

// attachments returns files as the inbound has them.
func attachments(bot conversation.Account, chat, message int64, files []named) []media.Attachment {
	var list []media.Attachment
	for _, f := range files {
		list = append(list, f.attachment(bot, chat, message))
	}
	return list
}
