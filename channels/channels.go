// Package channels is the contract between the gateway and a channel, which is
// the adapter of one platform.
//
// Every channel is a Source: it takes messages from its platform and accepts
// them into the store. A channel whose platform must be sent the replies is a
// Sink as well; package delivery splits and sends them. The replies of other
// channels stay in the store until somebody asks for them.
//
// AlbumSink, Typer, Previewer, Hurrier, Titler, Fetcher, AdminChecker, Locator, Readdresser, Starter and
// IdleReleaser are optional: the gateway looks which of them a channel implements. All methods may be called
// from several goroutines at once, unless they say otherwise. An address is what
// the channel stored with the message: only the channel reads it.
package channels

import (
	"context"
	"io"

	"parley/conversation"
	"parley/conversation/media"
)

// Source is a channel: it brings messages in.
type Source interface {
	// Name returns the first segment of the channel's session keys.
	Name() string

	// Run takes messages from the platform and accepts them until ctx ends, then
	// returns nil. The gateway calls it once. It retries what may pass, even a
	// rejected token, and reports that as the channel's health. An error ends this
	// channel alone and reads as a sentence for the operator.
	Run(ctx context.Context, accept AcceptFunc) error
}

// AcceptFunc stores a batch of inbound messages together with how far the
// channel has read its platform. When it returns nil both are durable, and the
// channel may acknowledge them to its platform. An error means that nothing of
// the batch was stored: the channel keeps its cursors and tries again. It blocks
// for as long as the transaction takes, and may be called from any goroutine
// until Run returns.
type AcceptFunc func(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error

// Sink is a channel that sends replies to its platform. The channel's
// delivery.Sender calls it, also before Run has begun and after it has returned.
type Sink interface {
	// Name returns the name of the channel, as Source does.
	Name() string

	// Split renders a delivery into the parts that the platform takes as one
	// message each. It does not block, and it is pure: the same delivery gives the
	// same parts, so that after a crash those that were sent can be skipped. Where
	// the configuration decides on the form, parts that were sent in another form
	// count as parts of this one only if nothing is lost by that.
	Split(d conversation.Delivery) []Part

	// Send hands one part to the platform and returns the platform's id of it. It
	// may block for as long as the chat's rate limit asks, until ctx ends. It is
	// called for many sessions at once, but for one session only one call at a
	// time. It returns a *SendError or a *LocalError; any other error counts as
	// temporary.
	Send(ctx context.Context, d conversation.Delivery, p Part) (id string, err error)
}

// AlbumSink is a Sink that can send several pictures of a reply in one request.
type AlbumSink interface {
	// AlbumSize returns how many of the pictures, counted from the first one, go into
	// one request; less than 2 means that the first one goes by itself. It is pure, and
	// called before the pictures are read.
	AlbumSize(d conversation.Delivery, pictures []Part) int

	// SendAlbum hands the pictures to the platform, and returns the platform's id of
	// each. It is called as Send is. After ErrNoAlbum the pictures are sent one by one.
	SendAlbum(ctx context.Context, d conversation.Delivery, pictures []Part) (ids []string, err error)
}

// Typer shows in the chat that an answer is being worked on.
type Typer interface {
	// Typing shows the sign until ctx ends. It returns at once. The session's loop
	// calls it when a run begins.
	Typing(ctx context.Context, address string)
}

// Previewer shows an answer while the model still writes it.
type Previewer interface {
	// Preview shows text, which is all of the answer so far of a session's run. It must not
	// block: the session's loop calls it for each piece that the model gives.
	Preview(key conversation.Key, run int64, address, text string)
}

// Hurrier is a Previewer that edits what it shows at a slow pace.
type Hurrier interface {
	// Hurry shows the text of the last Preview of an address without waiting for the pace. It
	// must not block.
	Hurry(address string)
}

// Titler names a place on the platform, such as a thread, after its conversation.
type Titler interface {
	// SetTitle names the place of an address after a conversation that has been given a
	// title. It must not block: the session's loop calls it.
	SetTitle(address, title string)
}

// Fetcher gets the files that came with messages.
type Fetcher interface {
	// Fetch opens a file. It may block until ctx ends, and so may reading. A file may
	// be longer than its Attachment says: the caller bounds what it reads, and closes
	// the file. The model and the user are shown the text of an error, also of one
	// while reading: a few words, without secrets. A *files.GoneError says that
	// no other attempt can help; after any other error the file is fetched again.
	Fetch(ctx context.Context, file media.Attachment) (io.ReadCloser, error)
}

// AdminChecker reports who administers the groups of the platform.
type AdminChecker interface {
	// IsAdmin reports whether a person, by the platform's id, administers the group
	// of an address. A place without administrators has none. It may ask the
	// platform, until ctx ends; an error means that the platform does not say now.
	IsAdmin(ctx context.Context, address, user string) (bool, error)
}

// Locator knows how its platform names the places that people write in.
type Locator interface {
	// Locate returns where a message was written, as far as its key and address say.
	Locate(in conversation.Inbound) Place
}

// Place is where a message was written, by the ids of its platform; "" where there is none.
type Place struct {
	Server string
	Chat   string // a channel has its threads within it
	Topic  string
	Thread string
}

// Readdresser is a channel whose addresses name not only a place, but also a message that is
// answered or edited there.
type Readdresser interface {
	// Readdress returns the address for the reply to in, which nobody wrote, such as the message of a
	// reminder. in has the address of an earlier message, whose answer the reply must not replace.
	Readdress(in conversation.Inbound) string
}

// Starter is a Source that the gateway itself serves over HTTP. Requests may come
// before Run has begun.
type Starter interface {
	// HasStarted reports whether Run has begun to take messages.
	HasStarted() bool
}

// IdleReleaser holds resources for the next message that an idle gateway does
// not need, such as open connections.
type IdleReleaser interface {
	// ReleaseIdle releases them. The gateway calls it when many loops have ended.
	// What is in use stays.
	ReleaseIdle()
}
