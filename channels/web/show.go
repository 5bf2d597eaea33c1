package web

import (
	"html/template"
	"math"
	"net/http"
	"strconv"

	"parley/channels"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/httpserver"
	"parley/pages"
)

// side is the sidebar of a page.
type side struct {
	Chats   chats
	Words   string // words that were searched for
	Links   []link // links to other parts of the gateway
	SignOut bool   // there is something to sign out of
}

type link struct{ Label, URL string }

// side returns the sidebar for the page of an address.
func (c *Channel) side(r *http.Request, address string) (side, error) {
	list, err := c.listChats(r.Context(), address)
	return side{Chats: list, Links: c.links(), SignOut: c.server.NeedsToken()}, err
}

// chatPage is the page of a chat.
type chatPage struct {
	Side                              side
	Name, Conversation, Title, At     string
	URL                               string // address of the chat
	Address                           string // address of the conversation
	FreshID                           string
	Stored, Empty, ReadOnly, InMiddle bool
	Entries, Waiting                  []item
	Earlier                           string // address of the page with earlier messages; "" for none
	Working                           bool
	Calls                             []toolUse
	Answer                            template.HTML
	Commands                          []channels.Command
	MaxText, MaxFiles                 int
	Vision                            bool
	MaxFile, MaxBody                  int64
}

// showNew shows an empty chat, which begins with its first message.
func (c *Channel) showNew(w http.ResponseWriter, r *http.Request) {
	c.show(w, r, newName(), view{})
}

// showChat shows the active conversation of a chat.
func (c *Channel) showChat(w http.ResponseWriter, r *http.Request) {
	name, ok := chatName(w, r)
	if !ok {
		return
	}
	watch := c.Feed.Watch(keyOf(name))
	defer watch.Close()
	t, err := c.read(r.Context(), name, watch)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.show(w, r, name, t)
}

// showConversation shows a conversation by its ID, to be read only: an archived
// one, or with ?before=SEQ the messages before another.
func (c *Channel) showConversation(w http.ResponseWriter, r *http.Request) {
	name, found, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
	if err != nil {
		before = math.MaxInt64
	}
	if found.Active && before > found.Messages {
		http.Redirect(w, r, "/chat/"+name, http.StatusSeeOther)
		return
	}
	t := view{Conversation: found}
	if err := c.readItems(r.Context(), &t, name, before); err != nil {
		c.fail(w, r, err)
		return
	}
	if found.Active && !httpserver.WantsPage(r) { // a script adds them to the chat, where they can be edited
		addActions(t.entries, name)
	}
	c.showToRead(w, r, name, t)
}

// show shows a chat that can be written in.
func (c *Channel) show(w http.ResponseWriter, r *http.Request, name string, t view) {
	p := c.page(r, name, t)
	addActions(p.Entries, name)
	p.Waiting, p.Working = t.waiting, t.working
	if t.working {
		p.Calls, p.Answer = t.toolsUnderWay(), answerHTML(t.blocks())
	}
	p.Empty = len(t.entries) == 0 && len(t.waiting) == 0
	p.Address = p.URL
	p.At, p.FreshID, p.Commands = t.at.String(), newName(), c.Commands
	p.Vision = c.Vision
	p.MaxText, p.MaxFiles, p.MaxFile, p.MaxBody = hosted.MaxText, hosted.MaxFiles, c.MaxFile, c.maxBody()
	c.answerPage(w, r, p)
}

// addActions adds the buttons that send something to the items of a chat.
func addActions(items []item, name string) {
	for i := range items {
		items[i].Action = "/chat/" + name + "/messages"
	}
}

// showToRead shows a part of a conversation that can only be read.
func (c *Channel) showToRead(w http.ResponseWriter, r *http.Request, name string, t view) {
	p := c.page(r, name, t)
	p.ReadOnly, p.InMiddle = true, t.Active
	c.answerPage(w, r, p)
}

func (c *Channel) page(r *http.Request, name string, t view) chatPage {
	p := chatPage{
		Name: name, Conversation: t.ID, Title: titleOf(t.Conversation), URL: "/chat/" + name, Address: addressOf(name, t.Conversation),
		Stored: t.stored, Entries: t.entries,
	}
	if t.earlier > 0 {
		p.Earlier = p.Address + "?before=" + strconv.FormatInt(t.earlier, 10)
	}
	return p
}

// answerPage answers with the page of a chat, or of an archived conversation.
func (c *Channel) answerPage(w http.ResponseWriter, r *http.Request, p chatPage) {
	address := p.URL
	if p.ReadOnly && !p.InMiddle {
		address = p.Address
	}
	var err error
	if p.Side, err = c.side(r, address); err != nil {
		c.fail(w, r, err)
		return
	}
	c.render(w, r, "chat.html", p.Title, p)
}

// askToDelete asks for confirmation before a conversation is deleted, where the
// browser runs no script.
func (c *Channel) askToDelete(w http.ResponseWriter, r *http.Request) {
	name, found, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	p := c.page(r, name, view{Conversation: found})
	address := p.URL
	if !found.Active {
		address = p.Address
	}
	var err error
	if p.Side, err = c.side(r, address); err != nil {
		c.fail(w, r, err)
		return
	}
	c.render(w, r, "delete.html", "Delete a conversation", p)
}

func (c *Channel) render(w http.ResponseWriter, r *http.Request, page, title string, body any) {
	frame := pages.Frame{
		Title: title, Section: "chat",
		Styles: []string{"chat/chat.css"}, Scripts: []string{"chat/main.js"}, Body: body,
	}
	if err := templates.Page(w, http.StatusOK, page, frame); err != nil {
		c.fail(w, r, err)
	}
}

// placeOfFile returns the seq of the message that a request names, and the number of the file in it. The
// error is conversation.ErrNotFound.
func placeOfFile(r *http.Request) (seq int64, n int, err error) {
	seq, seqErr := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	n, nErr := strconv.Atoi(r.PathValue("n"))
	if seqErr != nil || nErr != nil {
		return 0, 0, conversation.ErrNotFound
	}
	return seq, n, nil
}

// sendAttachment serves a file of a message for download.
func (c *Channel) sendAttachment(w http.ResponseWriter, r *http.Request) {
	_, found, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	seq, n, err := placeOfFile(r)
	if err == nil {
		err = hosted.SendFile(w, r, c.Store, found.ID, seq, n)
	}
	if err != nil {
		c.fail(w, r, err)
	}
}

// sendImage serves a picture of a message.
func (c *Channel) sendImage(w http.ResponseWriter, r *http.Request) {
	_, found, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	var image media.Image
	seq, n, err := placeOfFile(r)
	if err == nil {
		image, err = files.New(c.Store).ImageAt(r.Context(), found.ID, seq, n)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", image.MediaType)
	w.Header().Set("Cache-Control", "private, max-age=86400") // a message never changes
	_, _ = w.Write(image.Data)                                // a browser that went away misses nothing
}
