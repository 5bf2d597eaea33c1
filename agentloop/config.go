package agentloop

import (
	"time"

	"parley/conversation/toolstate"
	"parley/llm"
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

// AgentConfig is a section [agents.NAME].
type AgentConfig struct {
	// Description is what people read of it. Default none.
	Description string `toml:"description"`
	// SystemPrompt and SystemPromptFile are what the model is told first: a text, or a file,
	// which is read again when it changes. Default: that of Config.
	SystemPrompt     string `toml:"system_prompt"`
	SystemPromptFile string `toml:"system_prompt_file" kind:"file"`
	// Model is the name of a section [models.NAME]. Default: the model of [llm].
	Model string `toml:"model"`
	// Allow are patterns of the tools that it may call, and Deny of those that it may not,
	// whatever Allow says. Default: all.
	Allow []string `toml:"allow"`
	Deny  []string `toml:"deny"`
	// Temperature is in place of that of the model. Default: that.
	Temperature *float64 `toml:"temperature" min:"0" max:"2"`
	// MaxOutputTokens is in place of that of the model. Default 0: that.
	MaxOutputTokens int `toml:"max_output_tokens" min:"0"`
	// MaxToolRounds is in place of that of Config. Default: that.
	MaxToolRounds *int `toml:"max_tool_rounds" min:"0" max:"100"`
	// AllowSwitch are the people and places that may choose it with /agent, see
	// conversation.Inbound.Names. Default none.
	AllowSwitch []string `toml:"allow_switch"`
}

// SetDefaults sets nothing: all defaults are zero.
func (*AgentConfig) SetDefaults() {}

// AllowedName returns what names are allowed, "" if this is one.
func (AgentConfig) AllowedName(name string) string { return llm.ModelConfig{}.AllowedName(name) }

// Check reports keys that do not suit each other.
func (c AgentConfig) Check(report func(key, found, allowed string)) {
	if c.SystemPrompt != "" && c.SystemPromptFile != "" {
		report("system_prompt_file", "both system_prompt and system_prompt_file", "one of the two")
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
