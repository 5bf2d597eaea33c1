// Package web is the chat in a browser: pages rendered by the server, a stream of
// their changes, and a form to write in. A chat is a session "web:NAME".
package web

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"

	"parley/activity"
	"parley/channels"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/reminders"
	"parley/httpserver"
	"parley/sessions"
)

const channelName = "web"

// personID is the id of who writes in the web chat: whoever is signed in.
const personID = "web"

// Deps holds what the channel depends on.
type Deps struct {
	Store     *conversation.Store
	Feed      *activity.Feed
	Sessions  *sessions.Service
	Reminders *reminders.Reminders
	Edited    func(key conversation.Key) // tells the loop of a session that its conversation was changed
	Commands  []channels.Command         // that the composer completes
	Vision    bool                       // the model sees pictures; else people are told so when they pick one

	MaxFile int64 // bytes that a file may have; 0: as files.DefaultLimits

	Imports Imports // imports files with conversations

	Health func(state, detail string) // called with "serving" when Run begins, see bots.Health; nil: not called

	Log *slog.Logger
}

// Channel is the web chat. It is no channels.Sink: replies stay in the store, and
// its pages read them there.
type Channel struct {
	Deps
	gate    hosted.Gate
	uploads hosted.Uploads
	edits   sync.RWMutex // held by an edit from its check on, shared by other messages
	list    sharedList
	server  *httpserver.Server
	links   func() []link
}

var (
	_ channels.Source  = (*Channel)(nil)
	_ channels.Fetcher = (*Channel)(nil)
)

// New makes the channel. Its pages are served by Serve.
func New(deps Deps) *Channel {
	if deps.Health == nil {
		deps.Health = func(string, string) {}
	}
	if deps.MaxFile == 0 {
		deps.MaxFile = files.DefaultLimits().MaxFile
	}
	return &Channel{Deps: deps, uploads: hosted.Uploads{Store: deps.Store, Log: deps.Log, Most: deps.MaxFile}, list: sharedList{watch: deps.Feed.WatchChannel(channelName)}}
}

// Name returns "web".
func (c *Channel) Name() string { return channelName }

// Run takes messages from pages until ctx ends.
func (c *Channel) Run(ctx context.Context, accept channels.AcceptFunc) error {
	c.gate.Open(ctx, accept)
	c.Health(bots.Serving, "")
	<-ctx.Done()
	return nil
}

// HasStarted reports whether Run has begun to take messages.
func (c *Channel) HasStarted() bool { return c.gate.HasOpened() }

// Fetch opens a file that came with a message.
func (c *Channel) Fetch(ctx context.Context, file media.Attachment) (io.ReadCloser, error) {
	return c.uploads.Fetch(ctx, file)
}

// nameForm matches the names of chats in addresses.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// keyOf returns the session key of a chat.
func keyOf(name string) conversation.Key { return conversation.Key(channelName + ":" + name) }

// nameOf returns the chat of a session.
func nameOf(key conversation.Key) string { return strings.TrimPrefix(string(key), channelName+":") }

// newName returns a random name, which no other chat has.
func newName() string { return strings.ToLower(rand.Text()[:12]) }
