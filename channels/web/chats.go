package web

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/catalog"
	"parley/httpserver"
)

// listed is how many chats, and how many archived conversations, the sidebar
// lists, and a page of older ones.
const listed = 100

// chats is the list of chats in the sidebar.
type chats struct {
	Pinned, Open, Archived   []chat
	OlderOpen, OlderArchived string // addresses of the pages with older chats; "" for none
	InArchive                bool   // the page shows a chat of Archived
}

// chat is a line of the list.
type chat struct {
	Title, URL      string
	Name            string // of the chat, in addresses
	Current, AtWork bool
	Pinned          bool
	Archived        bool // it is an archived conversation, which can be continued
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
	l.Pinned, _ = mark(l.Pinned)
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

// readChats reads the chats, and the archived conversations, as far as the sidebar lists them.
func (c *Channel) readChats(ctx context.Context) (list chats, err error) {
	if list.Pinned, _, err = c.chatsOf(ctx, true, ""); err == nil {
		list.Open, list.OlderOpen, err = c.openChats(ctx, "")
	}
	if err == nil {
		list.Archived, list.OlderArchived, err = c.archivedChats(ctx, "")
	}
	if conversation.IsDamaged(err) { // the chats go without what can't be read
		return list, nil
	}
	return list, err
}

// openChats returns a page of the chats that can be written in and are not pinned, the
// newest messages first, and the address of the page that follows.
func (c *Channel) openChats(ctx context.Context, from string) (lines []chat, older string, err error) {
	lines, next, err := c.chatsOf(ctx, false, from)
	if next != "" {
		older = chatsPath + "?from=" + next
	}
	return lines, older, err
}

// chatsOf returns a page of the chats that can be written in: of those that are pinned, or
// of the others. A chat is listed from its first message on, by the date of its newest one:
// that it was resumed or imported keeps it from expiring, and moves it nowhere.
func (c *Channel) chatsOf(ctx context.Context, pinned bool, from string) (lines []chat, next string, err error) {
	working := map[conversation.Key]bool{}
	for _, key := range c.Feed.UnderWay(channelName) {
		working[key] = true
	}
	list, next, err := catalog.New(c.Store).Sessions(ctx, catalog.SessionQuery{Channel: channelName, Active: true, Pinned: &pinned, ByMessage: true, From: from, Limit: listed})
	for _, one := range list {
		lines = append(lines, chat{
			Title: cmp.Or(strings.TrimSpace(one.Title), "Untitled"), URL: "/chat/" + nameOf(one.Key), Name: nameOf(one.Key),
			Pinned: pinned, UsedAt: one.UsedAt, AtWork: working[one.Key],
		})
	}
	return lines, next, err
}

// archivedChats returns a page of the archived conversations, used last first, and the address of the page that follows.
func (c *Channel) archivedChats(ctx context.Context, from string) (lines []chat, older string, err error) {
	list, next, err := catalog.New(c.Store).Conversations(ctx, catalog.ConversationQuery{Channel: channelName, Archived: true, From: from, Limit: listed})
	for _, one := range list {
		lines = append(lines, chat{Title: titleOf(one), URL: addressOf(nameOf(one.Key), one), Name: nameOf(one.Key), Archived: true, UsedAt: one.UpdatedAt})
	}
	if next != "" {
		older = chatsPath + "?archived=true&from=" + next
	}
	return lines, older, err
}

const chatsPath = "/chats"

// chatsPage is a page of the list of chats.
type chatsPage struct {
	Side  side
	Title string
	Lines []chat
	Older string // address of the page with older chats; "" for none
}

// fragment is a part of a page for its script: HTML, and the address of the part that follows.
type fragment struct {
	HTML template.HTML `json:"html"`
	Next string        `json:"next,omitempty"`
}

// showChats shows a page of the list of chats, or of archived conversations: to a script as a fragment, to a browser as a
// page.
func (c *Channel) showChats(w http.ResponseWriter, r *http.Request) {
	p := chatsPage{Title: "Chats"}
	query, read := r.URL.Query(), c.openChats
	if query.Get("archived") == "true" {
		p.Title, read = "Archived chats", c.archivedChats
	}
	var err error
	if p.Lines, p.Older, err = read(r.Context(), query.Get("from")); err != nil {
		c.fail(w, r, err)
		return
	}
	if httpserver.WantsPage(r) {
		if p.Side, err = c.side(r, ""); err != nil {
			c.fail(w, r, err)
			return
		}
		c.render(w, r, "chats.html", p.Title, p)
		return
	}
	c.sendFragment(w, r, "lines", p.Lines, p.Older)
}

// sendFragment answers a script with a template and the address of what follows.
func (c *Channel) sendFragment(w http.ResponseWriter, r *http.Request, template string, data any, next string) {
	html, err := templates.Fragment(template, data)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	httpserver.SendJSON(w, http.StatusOK, fragment{html, next})
}
