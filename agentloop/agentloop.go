// Package agentloop answers what people write. The Router starts a loop for each
// session that has waiting messages. The loop takes them, calls the model with a
// window of the conversation, runs the tools that the model asks for, and commits
// the answer. Package window decides what a call is sent, package command carries
// out what begins with a slash.
//
// The package knows no platform: the loop commits, the channels deliver, and they
// meet in the store.
package agentloop

import (
	"context"
	"io"
	"log/slog"
	"time"

	"parley/agentloop/command"
	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/files"
	"parley/filecontent"
	"parley/llm"
	"parley/tools"
)

// Deps is what a Router works with. All are needed where nothing else is said.
type Deps struct {
	Config  Config
	Store   *conversation.Store
	Model   Model
	Counter window.Counter
	Tools   *tools.Registry
	Watcher Watcher
	Files   Files          // nil: no channel has files
	Admins  command.Admins // nil: no group has admins
	Vision  bool           // the model takes images

	FileLimits  files.Limits        // of what is kept of files; zero: files.DefaultLimits
	FileContent *filecontent.Reader // nil: one that reads texts and pictures
	Budget      int                 // tokens of a window, see window.Budget
	Log         *slog.Logger

	// Deliver is called after a commit with the replies to send, all of one session.
	Deliver func(replies []conversation.Delivery)
	// ReleaseMemory is called when many sessions have ended and none is left, to return
	// memory to the system.
	ReleaseMemory func()

	// OfPrograms reports whether programs talk in a session: the model makes no titles
	// there, and notices of the gateway stand beside the answers, not in them. nil: no
	// session is theirs.
	OfPrograms func(key conversation.Key) bool

	// StateBudget is the most tokens of the session state in a window; 0 = it is not
	// shown. It never takes more than a quarter of Budget.
	StateBudget int
	// Strategy is SlidingWindow or Summarization. KeepRecent is how many of the newest
	// messages are shown as far as Budget allows.
	Strategy   string
	KeepRecent int
	// HintPhrases are added to the phrases by which a message refers to something
	// that was said long ago.
	HintPhrases []string
	// Limits say when a conversation is over, so that the next message begins a new
	// one, and what that begins with.
	Limits conversation.Limits
	// CarrySummary has a conversation that follows one that is over open with a summary
	// of it, which the model makes before its first answer.
	CarrySummary bool
}

// Model answers a list of messages. *llm.Client and *llm.Offline are models.
type Model interface {
	// Complete returns the answer, and passes its text to stream as it arrives. When
	// ctx ends, it returns at once with the text so far and an error that wraps the
	// context's cause.
	Complete(ctx context.Context, request llm.Request, stream func(llm.Delta)) (llm.Response, error)
	// Model returns the name that /status shows.
	Model() string
}

// Watcher learns what the runs do while they go on. The loops call its methods,
// which must not block.
type Watcher interface {
	// Working reports that a run answers the messages it took, until ctx ends.
	Working(ctx context.Context, key conversation.Key, took []conversation.Inbound, to conversation.Destination)
	// Preview reports the text so far of a model call.
	Preview(key conversation.Key, to conversation.Destination, text string)
	// Called reports that a tool call has begun or ended.
	Called(key conversation.Key, call ToolCall)
	// Committed reports that a run is stored; commands are runs, too.
	Committed(run conversation.Run, done conversation.Committed)
	// Titled reports the new title of a conversation.
	Titled(key conversation.Key, to conversation.Destination, title string)
}

// ToolCall is a tool call under way, or one that has ended.
type ToolCall struct {
	llm.ToolCall
	Done  bool
	Took  time.Duration // 0 until it is done
	Error string        // how it failed, as the model is told; "" when it did not
}

// Files fetches attachments from where their platform keeps them.
type Files interface {
	// Fetch opens a file that came by a channel, as channels.Fetcher says. The model
	// reads its errors, so they have few words.
	Fetch(ctx context.Context, channel string, file conversation.Attachment) (io.ReadCloser, error)
}
