// Package api is the HTTP API for programs: sessions "api:ANYTHING" that they
// talk in, reading and managing of all sessions, and OpenAI's chat completions
// on top of a session.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"parley/activity"
	"parley/channels"
	"parley/conversation"
)

const channelName = "api"

// Parts is what the channel is made of.
type Parts struct {
	Store  *conversation.Store
	Feed   *activity.Feed
	Models []string // that answer, the first choice first
	Log    *slog.Logger

	// Do runs an operation on a session between two of its runs, or gives up
	// when ctx ends.
	Do func(ctx context.Context, key conversation.Key, do func(ctx context.Context) error) error

	// Edited tells whoever works a session that its conversation was extended.
	Edited func(key conversation.Key)

	// Window gives what the model would be sent for a session now.
	Window func(ctx context.Context, key conversation.Key) (Window, error)

	// Tokens counts what a message costs the model.
	Tokens func(m conversation.Message) int

	// Cost says what tokens of a model cost; known is false where no price is set.
	Cost func(model string, prompt, completion int64) (cost float64, known bool)
}

// Window is what the model would be sent for a session.
type Window struct {
	Conversation conversation.Conversation
	Messages     []conversation.Message // the system prompt first
	Left         int64                  // messages of the conversation that are not among them
	Tokens       int                    // of all of it, tools included
	Budget       int                    // tokens that it may have
}

// Channel is the API. It has nothing to send: replies are kept in the store, and
// whoever asks finds them there.
type Channel struct {
	channels.Kept
	Parts
	intake   atomic.Pointer[intake]
	handler  func() http.Handler // made at the first request: what it takes is no part of an idle gateway
	patching sync.Mutex          // metadata is read, changed and stored by one request at a time
}

// intake is how messages come in, while they do.
type intake struct {
	accept channels.AcceptFunc
	ended  <-chan struct{}
}

// New makes the channel. Serve puts it on a server.
func New(parts Parts) *Channel {
	c := &Channel{Kept: channels.NewKept(parts.Store, parts.Log), Parts: parts}
	c.handler = sync.OnceValue(c.build)
	return c
}

func (c *Channel) Name() string { return channelName }

// Run lets messages in until ctx ends. Requests whose answer this process will
// not make end then.
func (c *Channel) Run(ctx context.Context, accept channels.AcceptFunc) error {
	c.intake.Store(&intake{accept: accept, ended: ctx.Done()})
	<-ctx.Done()
	return nil
}

// ends is closed when the gateway takes in nothing more. It is nil, which is
// never closed, before the channel runs.
func (c *Channel) ends() <-chan struct{} {
	if in := c.intake.Load(); in != nil {
		return in.ended
	}
	return nil
}

// isEnding reports whether the gateway takes in nothing more.
func (c *Channel) isEnding() bool {
	select {
	case <-c.ends():
		return true
	default:
		return false
	}
}

// errClosed says that nothing is taken in: the gateway starts, or ends.
var errClosed = errors.New("the channel is closed")

// accept stores a message. A repeated one is dropped.
func (c *Channel) accept(ctx context.Context, in conversation.Inbound) error {
	now := c.intake.Load()
	if now == nil || c.isEnding() {
		return errClosed
	}
	return now.accept(ctx, nil, in)
}

// doTimeout is how long an operation waits for the run under way to end.
const doTimeout = 10 * time.Second

var errBusy = errors.New("an answer is being made in the session")

// operate does something to a session between two of its runs, and tells those
// who watch it.
func (c *Channel) operate(ctx context.Context, key conversation.Key, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, doTimeout, errBusy)
	defer cancel()
	err := c.Do(ctx, key, do)
	if err == nil {
		c.Feed.Changed(key)
	}
	return err
}
