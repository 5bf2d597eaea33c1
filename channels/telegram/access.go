package telegram

import (
	"context"
	"log/slog"

	"parley/channels"
	"parley/channels/access"
	"parley/conversation"
)

// admits reports whether the sender of a message may talk: by who they are, and
// in groups also by the group. It retries while the store can't be read, and
// returns an error only when ctx ends; then the message is not acknowledged.
func (c *Channel) admits(ctx context.Context, me *self, m *message, in conversation.Inbound) (bool, error) {
	from := m.sender()
	v := access.Visitor{Sender: in.Sender, Private: !m.isGroup(), Names: []access.Username{{Name: from.handle(), Holder: from.id()}}}
	if handle := from.handle(); handle != "" {
		v.Sender.Name += " (" + handle + ")" // the operator knows people by it
	}
	if m.isGroup() {
		v.IDs = []string{m.Chat.id()}
		v.Names = append(v.Names, access.Username{Name: m.Chat.handle(), Holder: m.Chat.id()})
	}
	retry := channels.NewRetry(c.log)
	for {
		ok, words, err := c.admit(ctx, m.Chat, v)
		if err == nil {
			retry.Succeeded("access list readable again")
			if words != "" {
				c.tell(in, words)
			}
			return ok, nil
		}
		if conversation.IsDamaged(err) { // whom the store does not know stays outside
			return false, nil
		}
		if err := retry.Wait(ctx, channels.Trouble{Name: "store", Level: slog.LevelError, Text: "access list not readable, trying again; Telegram keeps the messages"}, err, 0); err != nil {
			return false, err
		}
	}
}

// admit asks access about a visitor. The ids that a supergroup had before it
// became one admit it as well.
func (c *Channel) admit(ctx context.Context, chat account, v access.Visitor) (ok bool, words string, err error) {
	if !v.Private && !c.access.AllowsIDs(v.Sender.ID, chat.id()) {
		former, err := c.formerIDs(ctx, chat.ID)
		if err != nil {
			return false, "", err
		}
		if c.access.AllowsIDs(former...) {
			c.adviseAbout(chat.ID, former)
			v.IDs = append(v.IDs, former...)
		}
	}
	return c.access.Admit(ctx, v)
}

// tell sends a text to a stranger. It does not block.
func (c *Channel) tell(in conversation.Inbound, words string) {
	d := conversation.Delivery{Key: in.Key, Address: in.Address, Text: words}
	c.access.Tell(in.Sender.ID, func(ctx context.Context) error {
		for _, part := range c.Split(d) {
			if _, err := c.Send(ctx, d, part); err != nil {
				return err
			}
		}
		return nil
	})
}
