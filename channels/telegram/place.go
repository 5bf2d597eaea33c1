package telegram

import (
	"context"
	"fmt"
	"sync"

	"parley/conversation"
	"parley/conversation/retry"
	"parley/plaintext"
)

// maxTopics is how many topics are remembered by their names; beyond that all are
// learned anew.
const maxTopics = 10_000

// topics are the names of topics, as this process has learned them.
type topics struct {
	mu    sync.Mutex
	names map[address]string // names of topics, by chat and topic; "" = the stored name of the place stays
}

func (t *topics) learn(at address, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil || len(t.names) >= maxTopics {
		t.names = map[address]string{}
	}
	t.names[at] = name
}

func (t *topics) name(at address) (name string, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, known = t.names[at]
	return name, known
}

// learnTopic notes the name of the topic that a message opens or renames.
func (c *Channel) learnTopic(m *message) {
	if m == nil || m.ThreadID == 0 {
		return
	}
	for _, t := range []*topic{m.TopicCreated, m.TopicEdited} {
		if t != nil && plaintext.Name(t.Name) != "" {
			c.topics.learn(address{Chat: m.Chat.ID, Topic: m.ThreadID}, plaintext.Name(t.Name))
		}
	}
}

// place returns the name of a message's place for people, or "" to keep the stored name. The
// message that opened a topic holds the topic's original name. It is used only if no name is
// stored, since the topic may have been renamed. An error is the end of ctx.
func (c *Channel) place(ctx context.Context, m *message, to address) (string, error) {
	group := plaintext.Name(m.Chat.Title)
	switch {
	case !m.isGroup() && to.Topic == 0:
		return "a private chat with " + m.sender().name(), nil
	case to.Topic == 0 && group == "":
		return "", nil
	case to.Topic == 0:
		return fmt.Sprintf("the group %q", group), nil
	}
	at := address{Chat: to.Chat, Topic: to.Topic}
	name, known := c.topics.name(at)
	if !known && m.ReplyTo != nil && m.ReplyTo.TopicCreated != nil {
		var stored string
		err := retry.Persist(ctx, c.log, "read the name of a topic", func() (err error) {
			stored, err = c.places.PlaceName(ctx, at.key())
			return err
		})
		if err != nil && !conversation.IsDamaged(err) {
			return "", err
		}
		if stored == "" {
			name = plaintext.Name(m.ReplyTo.TopicCreated.Name)
		}
		c.topics.learn(at, name)
	}
	switch {
	case name == "":
		return "", nil
	case !m.isGroup():
		return fmt.Sprintf("the topic %q of a private chat with %s", name, m.sender().name()), nil
	}
	return fmt.Sprintf("the topic %q of the group %q", name, group), nil
}
