// Package api is the HTTP API for programs: sessions "api:ANYTHING" that they
// talk in, reading and managing of all sessions, and OpenAI's chat completions
// and responses, with and without a session. Programs that speak the Model Context Protocol may do the
// same as tools of a server.
package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"parley/activity"
	"parley/channels"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/bots"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/reminders"
	"parley/llm"
	"parley/sessions"
)

// ChannelName is the name of the channel, and how the keys of its sessions begin.
const ChannelName = "api"

// Deps holds what the channel depends on.
type Deps struct {
	Store     *conversation.Store
	Feed      *activity.Feed
	Sessions  *sessions.Service
	Reminders *reminders.Reminders
	Models    []string // the model that answers where none is chosen, then its fallbacks
	Named     []string // names of further models, sections [models.NAME]
	MayUse    func(model string, key conversation.Key) bool
	Agents    []string
	MayHave   func(agent string, key conversation.Key) bool
	Vision    bool // the model takes images
	Files     files.Limits
	Version   string // of the gateway, for MCP clients
	Log       *slog.Logger

	// Stateless has a chat completion or response that names no session answered by Complete
	// from its messages alone, and not stored. Otherwise it is part of the session api:default.
	Stateless bool

	// Complete calls a model of Named, or the first of Models for "", for a request that belongs to no
	// session. It waits for one of the gateway's run slots, and calls emit as agentloop.Model does with
	// its stream.
	Complete func(ctx context.Context, model string, request llm.Request, emit func(llm.Delta)) (llm.Response, error)

	// Zone is the time zone of reminders that name none; nil: UTC.
	Zone *time.Location

	// Expiration is how long a conversation may rest before the next message begins a new
	// one; 0 = for ever.
	Expiration time.Duration

	// Health is called with "serving", see bots.Health, when Run begins. nil: not called.
	Health func(state, detail string)

	// Edited tells the loop of a session that its conversation was extended.
	Edited func(key conversation.Key)

	// Cancel ends a run of a session if it is under way; it does not wait for its end.
	Cancel func(key conversation.Key, run int64)

	// OperatorMayAnswer reports whether programs with the token may answer a question about a
	// tool call. nil: they may.
	OperatorMayAnswer func(q approvals.Question) bool
	// Answered tells the loop of a session that a question was answered.
	Answered func(key conversation.Key)

	// Window returns what the model would be sent for a session now.
	Window func(ctx context.Context, key conversation.Key) (Window, error)

	// Tokens counts what a message costs the model.
	Tokens func(m conversation.Message) int

	// Cost says what tokens of a model cost; known is false where no price is set.
	Cost func(model string, prompt, cached, completion int64) (cost float64, known bool)
}

// Window is what the model would be sent for a session.
type Window struct {
	Conversation conversation.Conversation
	Messages     []conversation.Message // the system prompt first
	Left         int64                  // number of messages of the conversation that are left out
	Tokens       int                    // tokens of the messages and tools
	Budget       int                    // the most that Tokens may be
}

// Channel is the API. It is no channels.Sink: replies stay in the store, and
// programs ask for them there.
type Channel struct {
	Deps
	gate    hosted.Gate
	uploads hosted.Uploads
	handler func() http.Handler // made at the first request: what it takes is no part of an idle gateway
}

var (
	_ channels.Source  = (*Channel)(nil)
	_ channels.Fetcher = (*Channel)(nil)
	_ channels.Starter = (*Channel)(nil)
)

// New makes the channel. Serve puts it on a server.
func New(deps Deps) *Channel {
	c := &Channel{Deps: deps, uploads: hosted.Uploads{Store: deps.Store, Log: deps.Log, Most: max(hosted.MaxFile, deps.Files.MaxFile)}}
	c.handler = sync.OnceValue(c.build)
	return c
}

// Name returns "api".
func (c *Channel) Name() string { return ChannelName }

// Run takes messages from programs until ctx ends. Requests whose answer this
// process will not make end then.
func (c *Channel) Run(ctx context.Context, accept channels.AcceptFunc) error {
	c.gate.Open(ctx, accept)
	if c.Health != nil {
		c.Health(bots.Serving, "")
	}
	<-ctx.Done()
	return nil
}

// HasStarted reports whether Run has begun to take messages.
func (c *Channel) HasStarted() bool { return c.gate.HasOpened() }

// Fetch opens a file that came with a message.
func (c *Channel) Fetch(ctx context.Context, file media.Attachment) (io.ReadCloser, error) {
	return c.uploads.Fetch(ctx, file)
}
