// Package config reads the gateway's configuration: a strict TOML file over
// defaults that each package states for itself, and secrets from the file,
// from files beside it or from the environment.
package config

import (
	"log/slog"
	"reflect"

	"parley/agentloop"
	"parley/channels/cli"
	"parley/channels/discord"
	"parley/channels/telegram"
	"parley/conversation/budgets"
	"parley/httpserver"
	"parley/llm"
	"parley/tools"
	"parley/tools/mcp"
	"parley/tools/webfetch"
)

// Config is the configuration. Printed or logged, it hides its secrets.
type Config struct {
	// Database is the SQLite file, relative to the configuration file, or the URL of a PostgreSQL
	// database. Default the environment variable DATABASE_URL if it is the URL of one, else "conversations.db".
	Database string `toml:"database" kind:"path"`
	// DatabasePasswordFile holds the password of a PostgreSQL database and nothing else. Default "": the password
	// of the URL, or what PGPASSWORD and ~/.pgpass say.
	DatabasePasswordFile string `toml:"database_password_file" kind:"file"`

	Log           Log                              `toml:"log"`
	LLM           llm.Config                       `toml:"llm"`
	Models        map[string]llm.ModelConfig       `toml:"models"`
	Embeddings    llm.EmbeddingsConfig             `toml:"embeddings"`
	Transcription llm.TranscriptionConfig          `toml:"transcription"`
	Agent         agentloop.Config                 `toml:"agent"`
	Agents        map[string]agentloop.AgentConfig `toml:"agents"`

	// Routes say which agent answers what; the first one that fits does. Default none.
	Routes       []Route               `toml:"route"`
	Tools        tools.Config          `toml:"tools"`
	MCP          map[string]mcp.Config `toml:"mcp"`
	Budget       budgets.Config        `toml:"budget"`
	Conversation Conversation          `toml:"conversation"`
	Files        Files                 `toml:"files"`
	Reminders    Reminders             `toml:"reminders"`
	WebFetch     webfetch.Config       `toml:"web_fetch"`
	Telegram     telegram.Config       `toml:"telegram"`
	Discord      discord.Config        `toml:"discord"`
	CLI          cli.Config            `toml:"cli"`
	HTTP         httpserver.Config     `toml:"http"`
	Identity     Identity              `toml:"identity"`
}

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		Database:      "conversations.db",
		Log:           defaultLog(),
		LLM:           llm.Config{}.WithDefaults(),
		Embeddings:    llm.EmbeddingsConfig{}.WithDefaults(),
		Transcription: llm.TranscriptionConfig{}.WithDefaults(),
		Agent:         agentloop.DefaultConfig(),
		Tools:         tools.DefaultConfig(),
		Conversation:  defaultConversation(),
		Files:         defaultFiles(),
		Reminders:     defaultReminders(),
		WebFetch:      webfetch.DefaultConfig(),
		Telegram:      telegram.DefaultConfig(),
		Discord:       discord.DefaultConfig(),
		CLI:           cli.Defaults(),
		HTTP:          httpserver.DefaultConfig(),
	}
}

// Load reads the file at path over the defaults, and secrets that it leaves
// out from the environment. With an empty path it reads DefaultPath, and where
// there is no such file, everything has its default. The error is Problems,
// all of them at once, or says why the file could not be read.
//
// $OPENAI_API_KEY is not read here: llm.Choose decides whether it is for the server
// of [llm].
func Load(path string, getenv func(string) string) (Config, error) {
	c, _, err := LoadWithOrigins(path, getenv)
	return c, err
}

// LoadWithOrigins loads as Load does, and returns where each key was set.
func LoadWithOrigins(path string, getenv func(string) string) (Config, Origins, error) {
	c, origins := Default(), Origins{}
	err := load(path, &c, getenv, origins)
	return c, origins, err
}

// Prices returns the prices of all models.
func (c Config) Prices() llm.Prices { return llm.AllPrices(c.LLM.Prices, c.Models) }

// LogValue returns the configuration with its secrets hidden.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(attrs(reflect.ValueOf(c))...)
}

// String returns the configuration on one line with its secrets hidden.
func (c Config) String() string { return oneLine(reflect.ValueOf(c)) }

// GoString returns the same as String, so that %#v hides secrets too.
func (c Config) GoString() string { return c.String() }
