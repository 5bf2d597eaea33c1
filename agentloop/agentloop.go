// Package agentloop answers messages. The Router starts a loop for each
// session that has waiting messages. The loop takes them, calls the model with a
// window of the conversation, runs the tools that it asks for, and commits the
// answer. Package window decides what a call is sent, package command runs commands.
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
	"parley/conversation/media"
	"parley/conversation/state"
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

	FileLimits  files.Limits        // how much of files is kept; zero: files.DefaultLimits
	FileContent *filecontent.Reader // nil: one that reads texts and pictures
	Budget      int                 // tokens of a window, see window.Budget
	Models      []NamedModel        // that sessions can have beside Model
	Agents      []Agent             // that sessions can have beside the agent that Config describes
	Budgets     Budgets             // caps of all calls; zero: none
	Log         *slog.Logger

	// Deliver is called after a commit with the replies to send, all of one session.
	Deliver func(replies []conversation.Delivery)
	// ReleaseMemory is called when many sessions have ended and none is left, to return
	// memory to the system.
	ReleaseMemory func()

	// Route returns the name of the agent that answers a message where nobody has chosen one;
	// "" for the default one. nil: the default agent answers.
	Route func(in conversation.Inbound) string
	// Spread reports whether a session is assigned to any node of the cluster, so that nodes share the
	// work evenly. Other sessions are worked by the node at which their messages arrive. nil: false for
	// every session.
	Spread func(key conversation.Key) bool
	// BudgetFor returns the budget of a fallback model with this context window, in tokens, see
	// window.Budget. nil: a fallback is sent the same list.
	BudgetFor func(contextWindow int) int

	// OfPrograms reports whether programs talk in a session: the model makes no titles
	// there, and notices of the gateway stand beside the answers, not in them. nil: false
	// for every session.
	OfPrograms func(key conversation.Key) bool

	// OfOperator reports whether a session belongs to the operator. Only there does a reply
	// name the cause of a failure. nil: no session does.
	OfOperator func(key conversation.Key) bool

	// Approvals says which tool calls a person must allow, and who may. The zero value asks
	// for none.
	Approvals tools.Config
	// FromOperator reports whether a message comes from the operator: by the gateway's
	// terminal, or with its token. nil: no message does.
	FromOperator func(in conversation.Inbound) bool

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
	// Limits say when a conversation expires, so that the next message begins a new one,
	// and what the new one takes over.
	Limits state.Limits
	// GiveUpAfter is how long messages of people wait for a model that can't be called, before they are
	// told that there is no answer. 0 = they are told at once, as programs and the operator always are.
	GiveUpAfter time.Duration
	// CarrySummary makes a conversation that follows an expired one begin with a summary
	// of it, which the model writes before its first answer.
	CarrySummary bool
}

// Model answers a list of messages. *llm.Client and *llm.Offline implement it.
type Model interface {
	// Complete returns the answer, and passes its text to stream as it arrives. When
	// ctx ends, it returns at once with the text so far and an error that wraps the
	// context's cause.
	Complete(ctx context.Context, request llm.Request, stream func(llm.Delta)) (llm.Response, error)
	// Model returns the name that /status shows.
	Model() string
}

// Watcher is informed of the progress of runs. The loops call its methods,
// which must not block.
type Watcher interface {
	// Working reports that a run answers the messages it took, until ctx ends.
	Working(ctx context.Context, key conversation.Key, took []conversation.Inbound, to conversation.Destination)
	// Preview reports the text so far of a model call.
	Preview(key conversation.Key, to conversation.Destination, text string)
	// Waiting reports why no answer comes yet. It stands in place of a text until the next Preview.
	Waiting(key conversation.Key, to conversation.Destination, w Wait)
	// Thinking reports all of the model's reasoning so far in a call. Only the gateway's pages and its
	// terminal show it, chat platforms do not. "" begins another call.
	Thinking(key conversation.Key, to conversation.Destination, text string)
	// Called reports that a tool call has begun or ended.
	Called(key conversation.Key, call ToolCall)
	// Asked reports that a run waits for an answer of a person, or no longer does, or that messages wait for a model.
	Asked(key conversation.Key)
	// Committed reports that a run is stored; commands are runs, too.
	Committed(run conversation.Run, done conversation.Committed)
	// Titled reports the new title of a conversation.
	Titled(key conversation.Key, to conversation.Destination, title string)
}

// Wait is why no answer comes yet, in words for people.
type Wait struct {
	Notice  string        // of the gateway, which stands above the words; "" for none
	Words   string        // "⏳ The model is busy. Trying again in 25 seconds."
	Untimed string        // the words without the time at their end; "" if they name none
	For     time.Duration // time until the end of the wait
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
	Fetch(ctx context.Context, channel string, file media.Attachment) (io.ReadCloser, error)
}
