package agentloop

import (
	"time"

	"parley/conversation/toolstate"
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
	// FileTools, ShellTools and DecisionTools are patterns of the names of tools that
	// write files, run commands and record decisions, with * for any characters, beside
	// those of toolstate.BuiltinNames: what they do is noted in the session state, in
	// runs and in what programs append or import. Default none.
	FileTools     []string `toml:"file_tools"`
	ShellTools    []string `toml:"shell_tools"`
	DecisionTools []string `toml:"decision_tools"`
	// Titles has the model name each new conversation, after its first turn.
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

// DefaultConfig returns the defaults of all keys.
func DefaultConfig() Config {
	return Config{
		SystemPrompt: "You are a helpful assistant in a chat. Answer in the language you are spoken to, " +
			"briefly unless asked for more, and use Markdown where it helps.",
		MaxToolRounds:     8,
		MaxParallelTools:  8,
		Titles:            true,
		MaxConcurrentRuns: 256,
		LoopIdleTimeout:   time.Second / 4,
		DrainTimeout:      20 * time.Second,
		ToolTimeout:       time.Minute,
	}
}

// ToolNames returns the names of the tools whose calls are noted in the session state.
func (c Config) ToolNames() toolstate.Names {
	names := toolstate.BuiltinNames()
	names.Files = append(names.Files, c.FileTools...)
	names.Shells = append(names.Shells, c.ShellTools...)
	names.Decisions = append(names.Decisions, c.DecisionTools...)
	return names
}
