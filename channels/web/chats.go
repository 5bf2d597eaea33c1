package web

import (
	"context"
	"html/template"
	"slices"
	"sync"
	"time"

	"parley/activity"
	"parley/conversation"
)

// listed is how many chats, and how many archived conversations, the sidebar
// lists. Older ones are found by searching.
const listed = 100

// chats is the list of chats in the sidebar.
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

// at returns the list with the line of an address marked. Lists share their
// lines, so it marks a copy.
func (l chats) at(address string) chats {
	mark := func(lines []chat) ([]chat, bool) {
		i := slices.IndexFunc(lines, func(line chat) bool { return line.URL == address })
		if i < 0 {
			return lines, false
		}
		lines = slices.Clone(lines)
		lines[i].Current = true
		return lines, true
	}
	l.Open, _ = mark(l.Open)
	l.Archived, l.InArchive = mark(l.Archived)
	return l
}

// sharedList is the list that all pages show. It is read and rendered once for
// each change, however many pages there are.
type sharedList struct {
	watch *activity.Watch

	mu    sync.Mutex
	fresh bool
	list  chats
	html  template.HTML // without a mark of the page that shows it
	hash  hash
}

// read returns the list as it is now, its HTML and the hash of that.
func (l *sharedList) read(ctx context.Context, c *Channel) (list chats, html template.HTML, of hash, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch.Stored() {
		l.fresh = false
	}
	if !l.fresh {
		if l.list, err = c.readChats(ctx); err != nil {
			return list, html, of, err
		}
		if l.html, err = templates.Fragment("chats", l.list); err != nil {
			return list, html, of, err
		}
		l.hash, l.fresh = hashOf(string(l.html)), true
	}
	return l.list, l.html, l.hash, nil
}

// listChats returns the list for the page of an address.
func (c *Channel) listChats(ctx context.Context, address string) (chats, error) {
	list, _, _, err := c.list.read(ctx, c)
	return list.at(address), err
}

// readChats reads the active conversations of all chats, and the archived ones.
func (c *Channel) readChats(ctx context.Context) (list chats, err error) {
	working := map[conversation.Key]bool{}
	for _, key := range c.Feed.UnderWay(channelName) {
		working[key] = true
	}
	open, more, err := c.Store.Conversations(ctx, conversation.ConversationQuery{Channel: channelName, Active: true, Limit: listed})
	if conversation.IsDamaged(err) { // the chats go without their list
		return list, nil
	}
	if err != nil {
		return list, err
	}
	list.MoreOpen = more != ""
	for _, one := range open {
		list.Open = append(list.Open, chat{Title: titleOf(one), URL: "/chat/" + nameOf(one.Key), UsedAt: one.UpdatedAt, AtWork: working[one.Key]})
	}
	old, more, err := c.Store.Conversations(ctx, conversation.ConversationQuery{Channel: channelName, Archived: true, Limit: listed})
	if conversation.IsDamaged(err) {
		return list, nil
	}
	if err != nil {
		return list, err
	}
	list.MoreArchived = more != ""
	for _, one := range old {
		list.Archived = append(list.Archived, chat{Title: titleOf(one), URL: addressOf(nameOf(one.Key), one), UsedAt: one.UpdatedAt})
	}
	return list, nil
}
