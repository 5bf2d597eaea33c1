// Package agentloop runs the sessions: one loop each, which takes the waiting
// messages, calls the model with a window of the conversation, runs the tools
// that the model asks for, and commits the answer. It knows no platform: the
// loop commits, the channels deliver, and they meet in the store.
package agentloop

import (
	"context"
	"log/slog"
	"time"

	"parley/agentloop/command"
	"parley/agentloop/window"
	"parley/conversation"
	"parley/llm"
	"parley/tools"
)

// Config is the [agent] section.
type Config struct {
	// SystemPrompt is what the model is told first. Default: a few plain lines.
	SystemPrompt string `toml:"system_prompt"`
	// MaxToolRounds is how many times in one run the model may ask for tools
	// before it must answer. Default 8.
	MaxToolRounds int `toml:"max_tool_rounds" min:"0" max:"100"`
	// MaxParallelTools is how many of the calls that the model asks for together
	// run at once; the others wait their turn. Default 8.
	MaxParallelTools int `toml:"max_parallel_tools" min:"1" max:"100"`
	// FileTools and ShellTools are the names of tools that write files and that run
	// commands: what they do is noted in the session state. Default write_file and
	// edit_file, and shell_execute.
	FileTools  []string `toml:"file_tools"`
	ShellTools []string `toml:"shell_tools"`
	// Titles has the model name each new conversation, after its first exchange.
	// Without it the first line is the title. Default true.
	Titles bool `toml:"titles"`
	// MaxConcurrentRuns is how many sessions may call the model at once. Default 256.
	MaxConcurrentRuns int `toml:"max_concurrent_runs" min:"1"`
	// LoopIdleTimeout is how long a session without work keeps its loop. Default 250ms.
	LoopIdleTimeout time.Duration `toml:"loop_idle_timeout" min:"0"`
	// DrainTimeout is how long an orderly end waits for answers under way. Default 20s.
	DrainTimeout time.Duration `toml:"drain_timeout" min:"0"`
	// ToolTimeout is how long one tool call may take. Default 60s.
	ToolTimeout time.Duration `toml:"tool_timeout" min:"1ms"`
}

// DefaultConfig is what holds when the section says nothing.
func DefaultConfig() Config {
	return Config{
		SystemPrompt: "You are a helpful assistant in a chat. Answer in the language you are spoken to, " +
			"briefly unless asked for more, and use Markdown where it helps.",
		MaxToolRounds:     8,
		MaxParallelTools:  8,
		FileTools:         []string{"write_file", "edit_file"},
		ShellTools:        []string{"shell_execute"},
		Titles:            true,
		MaxConcurrentRuns: 256,
		LoopIdleTimeout:   time.Second / 4,
		DrainTimeout:      20 * time.Second,
		ToolTimeout:       time.Minute,
	}
}

// Model answers a list of messages. *llm.Client and *llm.Offline are models.
// When ctx ends, Complete returns at once with the text so far and an error
// that wraps the context's cause.
type Model interface {
	Complete(ctx context.Context, request llm.Request, stream func(llm.Delta)) (llm.Response, error)
	Model() string // the name that /status tells
}

// Watcher is told what runs do while they go on, so that people can see it.
// Its methods are called from the loops and must not block.
type Watcher interface {
	// Working says that an answer to what the run took is being made until ctx ends.
	Working(ctx context.Context, key conversation.Key, took []conversation.Inbound, to conversation.Destination)
	Preview(key conversation.Key, to conversation.Destination, text string) // the whole text so far of a model call
	Called(key conversation.Key, call ToolCall)                             // a tool call has begun or ended
	Committed(run conversation.Run, done conversation.Committed)            // a run is stored, a command's too
	Titled(key conversation.Key, to conversation.Destination, title string) // the conversation has got another title
}

// ToolCall is a tool call as it comes on.
type ToolCall struct {
	llm.ToolCall
	Done  bool
	Took  time.Duration // 0 until it is done
	Error string        // how it failed, as the model is told; "" when it did not
}

// Files fetches what came with messages from where their platform keeps it.
type Files interface {
	// Fetch gives the bytes of a file that came by a channel, or an error that says
	// in a few words, for the model, why not. It is an error when there are more
	// than limit.
	Fetch(ctx context.Context, channel string, file conversation.Attachment, limit int64) ([]byte, error)
}

// Deps is what a Router works with. All are needed.
type Deps struct {
	Config  Config
	Store   *conversation.Store
	Model   Model
	Counter window.Counter
	Tools   *tools.Registry
	Watcher Watcher
	Files   Files                                 // nil: no channel has files
	Admins  command.Admins                        // nil: no place has admins
	Vision  bool                                  // the model sees images
	Deliver func(replies []conversation.Delivery) // called after a commit that left replies of a session to be sent, each by its channel
	Rest    func()                                // called when a crowd of sessions has fallen silent: a time to give memory back
	Budget  int                                   // tokens a model may be sent, see Budget
	Log     *slog.Logger

	// StateBudget is how many tokens the session state may have; 0 = none is
	// shown. Never more than a quarter of Budget.
	StateBudget int

	// Strategy is SlidingWindow or Summarization. With the latter, KeepRecent
	// messages are left as they are.
	Strategy   string
	KeepRecent int

	// HintPhrases extend those by which a message points at what is not shown.
	HintPhrases []string

	// Expiration is how long a conversation may rest before the next message
	// begins a new one; 0 = for ever.
	Expiration time.Duration
}
