package web

import (
	"context"
	"time"

	"parley/conversation"
)

// listed is how many chats stand beside a page, and how many archived
// conversations. Older ones are found by searching.
const listed = 100

// chats is the list beside a page.
type chats struct {
	Open, Archived         []chat
	MoreOpen, MoreArchived bool
	InArchive              bool // the page shows one of the archived ones
}

// chat is a line of the list.
type chat struct {
	Title, URL      string
	Current, AtWork bool
	UsedAt          time.Time
}

// listChats lists the active conversations of all chats, and the archived ones;
// the page shows the chat of this name, or the archived conversation.
func (c *Channel) listChats(ctx context.Context, name, archived string) (chats, error) {
	var list chats
	working := map[conversation.Key]bool{}
	for _, key := range c.Feed.UnderWay(channelName) {
		working[key] = true
	}
	open, more, err := c.Store.FindConversations(ctx, conversation.ConversationQuery{Channel: channelName, Active: true, Limit: listed})
	if err != nil {
		return list, err
	}
	list.MoreOpen = more != ""
	for _, one := range open {
		list.Open = append(list.Open, chat{
			Title: titleOf(one), URL: "/chat/" + nameOf(one.Key), UsedAt: one.UpdatedAt,
			Current: archived == "" && nameOf(one.Key) == name, AtWork: working[one.Key],
		})
	}
	old, more, err := c.Store.FindConversations(ctx, conversation.ConversationQuery{Channel: channelName, Archived: true, Limit: listed})
	if err != nil {
		return list, err
	}
	list.MoreArchived = more != ""
	for _, one := range old {
		current := one.ID == archived
		list.Archived = append(list.Archived, chat{
			Title: titleOf(one), URL: addressOf(nameOf(one.Key), one), UsedAt: one.UpdatedAt, Current: current,
		})
		list.InArchive = list.InArchive || current
	}
	return list, nil
}
