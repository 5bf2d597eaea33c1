package telegram

import (
	"context"
	"sync"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/retry"
)

// membership says that the bot was added to a chat, or removed from it:
// https://core.telegram.org/bots/api#chatmemberupdated
type membership struct {
	Chat account  `json:"chat"`
	From *account `json:"from"`
	Date int64    `json:"date"`
	Old  status   `json:"old_chat_member"`
	New  status   `json:"new_chat_member"`
}

type status struct {
	Status   string `json:"status"`
	IsMember bool   `json:"is_member"`         // with the status restricted: the person is in the group
	CanSend  *bool  `json:"can_send_messages"` // with the status restricted: the person may write
}

// lacks returns what a bot with the status may not do, in words.
func (s status) lacks(me *self) []string {
	lacks := []string{}
	if s.Status == "restricted" && s.CanSend != nil && !*s.CanSend {
		lacks = append(lacks, "Send messages")
	}
	if s.Status != "administrator" && !me.readsAll {
		lacks = append(lacks, "See messages that are not addressed to it (privacy mode)")
	}
	return lacks
}

// Groups stores which groups the bot is in; bots.Bots is one.
type Groups interface {
	SetGroup(ctx context.Context, g bots.Group) (changed bool, err error)
}

// groups are those that this process has stored.
type groups struct {
	store Groups // nil: groups are not stored
	mu    sync.Mutex
	names map[int64]string // names of groups, by the ID of the group
}

// maxGroups is how many groups are remembered; beyond that some are stored again.
const maxGroups = 10_000

// isNew reports whether a group, by its name, was not stored by this process.
func (g *groups) isNew(id int64, name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ok := g.names[id]
	if g.names == nil || len(g.names) >= maxGroups {
		g.names = map[int64]string{}
	}
	g.names[id] = name
	return !ok || known != name
}

// noteGroup stores the group of a message: the bot may have been added before this
// database knew of groups.
func (c *Channel) noteGroup(ctx context.Context, m *message) {
	if m == nil || !m.isGroup() || m.Chat.Type == "channel" {
		return
	}
	if m.MigrateTo != 0 { // the bot is in the supergroup, which has an id of its own
		c.setGroup(ctx, bots.Group{Bot: c.account, ID: m.Chat.id(), Name: m.Chat.name(), State: bots.Removed, Since: unixTime(m.Date)})
		return
	}
	if !c.groups.isNew(m.Chat.ID, m.Chat.name()) {
		return
	}
	c.setGroup(ctx, bots.Group{Bot: c.account, ID: m.Chat.id(), Name: m.Chat.name(), State: bots.Member})
}

func (c *Channel) setGroup(ctx context.Context, g bots.Group) {
	if c.groups.store == nil {
		return
	}
	err := retry.Persist(ctx, c.log, "store a group of the bot", func() error {
		_, err := c.groups.store.SetGroup(ctx, g)
		return err
	})
	if err != nil && ctx.Err() == nil {
		c.log.Warn("group not stored", "chat", g.ID, "error", err)
	}
}

// isIn reports whether the status is that of a member.
func (s status) isIn() bool {
	switch s.Status {
	case "creator", "administrator", "member":
		return true
	}
	return s.Status == "restricted" && s.IsMember
}

// joined logs that the bot was added to a group or removed from one. The bot introduces itself if
// the person who added it, or the group, may talk to it. An error is the end of ctx.
func (c *Channel) joined(ctx context.Context, me *self, u update) error {
	m := u.Member
	if m.From == nil || !isGroup(m.Chat.ID) || m.Chat.Type == "channel" {
		return nil
	}
	by := m.From.name()
	c.groups.isNew(m.Chat.ID, m.Chat.name())
	stored := bots.Group{Bot: c.account, ID: m.Chat.id(), Name: m.Chat.name(), State: bots.Removed, Since: unixTime(m.Date), ByID: m.From.id(), ByName: by}
	if m.New.isIn() {
		stored.State, stored.Lacks = bots.Member, m.New.lacks(me)
	}
	c.setGroup(ctx, stored)
	if m.Old.isIn() == m.New.isIn() {
		return nil
	}
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

// introduceIn says how to talk to the bot. It does not block.
func (c *Channel) introduceIn(to address, me *self) {
	words := "Hello! Mention me, or reply to one of my messages, and I answer here. /help lists what I can do."
	if me.username != "" {
		words = "Hello! Begin a message with @" + me.username + ", or reply to one of mine, and I answer here. /help lists what I can do."
	}
	c.say(conversation.Delivery{Key: to.key(), Address: to.String(), Text: words})
}
