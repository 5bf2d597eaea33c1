// Package channels is the contract between a platform adapter and the gateway.
package channels

import (
	"context"
	"path"
	"strings"

	"parley/conversation"
)

// AcceptFunc stores a batch of inbound messages together with how far the
// channel has read its platform. When it returns nil both are durable, and the
// platform may be told. An error means that nothing of the batch was stored:
// keep the cursors where they were and try again.
type AcceptFunc func(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error

// Channel is a platform adapter.
type Channel interface {
	// Name is the first segment of the keys that the adapter mints.
	Name() string

	// Run takes messages from the platform and accepts them until ctx ends,
	// then returns nil. It retries what may pass, a rejected token too: that is
	// told to the operator by the channel's health. An error is final for this
	// channel and reads as a sentence for the operator.
	Run(ctx context.Context, accept AcceptFunc) error

	// Split renders a delivery into the parts that the platform takes as one
	// message each. It is pure: the same delivery gives the same parts, so that
	// after a crash the parts already sent can be skipped. Where the form depends
	// on the configuration, parts that were sent in another form count as parts of
	// this one only if nothing is lost by that.
	Split(d conversation.Delivery) []Part

	// Send hands one part to the platform and returns the platform's id of it.
	// It may block for as long as the chat's rate limit asks, and is called for
	// many sessions at once but never twice at once for one. Errors are
	// *SendError; any other error counts as temporary.
	Send(ctx context.Context, d conversation.Delivery, p Part) (id string, err error)
}

// Part is one platform message of a delivery.
type Part struct {
	Index int    // from 0
	Text  string // in the platform's markup
	Plain string // the same without markup, for a platform that refuses the markup
	File  *File  // goes along with the text; nil = none
}

// File is what a platform is handed beside a text.
type File struct {
	Name string // without a folder, "reply.md"
	Data []byte // nil in a part that Split gives: the transcript of the delivery
}

// A reply of more messages than a channel's file_over is sent as its beginning and
// this file, with these words.
const (
	ReplyFile   = "reply.md"
	ReplyNotice = "… The whole reply is in the file " + ReplyFile + "."
)

// MediaType returns what the file is, by its name. Texts are in UTF-8, which a
// platform that shows them may not guess.
func (f *File) MediaType() string {
	switch strings.ToLower(path.Ext(f.Name)) {
	case ".md":
		return "text/markdown; charset=utf-8"
	case ".txt":
		return "text/plain; charset=utf-8"
	case ".json":
		return "application/json"
	case ".jsonl":
		return "application/jsonl"
	}
	return "application/octet-stream"
}

// TranscriptOf is the file of a delivery's transcript, nil when it has none. Its
// bytes are there when the part with it is sent.
func TranscriptOf(d conversation.Delivery) *File {
	if d.Transcript == nil {
		return nil
	}
	return &File{Name: d.Transcript.Name}
}

// Previewer is a Channel that can show text while the model still writes.
type Previewer interface {
	// Preview shows the whole text so far. It must not block.
	Preview(address, text string)
}

// Typer is a Channel that can show that an answer is being worked on.
type Typer interface {
	// Typing shows the sign until ctx ends. It returns at once.
	Typing(ctx context.Context, address string)
}

// Titler is a Channel whose places have names that can be changed.
type Titler interface {
	// Titled says that the conversation in a place has got a title. It must not block.
	Titled(address, title string)
}

// Administered is a Channel whose groups have administrators.
type Administered interface {
	// IsAdmin reports whether somebody administers the place of an address, by the
	// platform's id of the person. It may ask the platform; an error says that the
	// platform does not tell now. Places without administrators have none.
	IsAdmin(ctx context.Context, address, user string) (bool, error)
}

// Fetcher is a Channel whose messages come with files.
type Fetcher interface {
	// Fetch gives the bytes of a file. It is an error when there are more than
	// limit. Errors are a few words for the model, without secrets.
	Fetch(ctx context.Context, file conversation.Attachment, limit int64) ([]byte, error)
}

// Rester is a Channel that keeps something for the next message, such as open
// connections.
type Rester interface {
	// Rest gives back what a crowd that has fallen silent has left.
	Rest()
}
