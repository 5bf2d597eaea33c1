package telegram

import (
	"context"
	"strings"

	"parley/conversation"
)

// aside returns a group message that is not addressed to the bot as group talk, if its sender may
// talk to the bot. It returns nothing unless the configuration sets context. It returns an error
// only when ctx ends.
func (c *Channel) aside(ctx context.Context, m *message) ([]conversation.Inbound, error) {
	if c.talk.Most == 0 || !m.isGroup() {
		return nil, nil
	}
	text := m.talk()
	if text == "" {
		return nil, nil
	}
	if known, err := c.knows(ctx, m, m.sender()); err != nil || !known {
		return nil, err
	}
	in := m.inbound(m.sender(), text)
	in.Account, in.Aside = c.account.ID, true
	return []conversation.Inbound{in}, nil
}

// talk returns the text of a message as group talk: with the names of its files, and without what it
// replies to.
func (m *message) talk() string {
	text := m.said()
	for _, f := range m.files(m.ID) {
		text = joined(text, "[file "+f.Name+"]")
	}
	return strings.TrimSpace(text)
}

// place returns the address of the chat or topic alone.
func (a address) place() address { return address{Chat: a.Chat, Topic: a.Topic} }
