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
	"parley/httpserver"
	"parley/llm"
)

// Config is the configuration. Printed or logged, it hides its secrets.
type Config struct {
	// Database is the SQLite file, relative to the working directory.
	// Default "conversations.db".
	Database string `toml:"database" kind:"text"`

	Log          Log                  `toml:"log"`
	LLM          llm.Config           `toml:"llm"`
	Embeddings   llm.EmbeddingsConfig `toml:"embeddings"`
	Agent        agentloop.Config     `toml:"agent"`
	Conversation Conversation         `toml:"conversation"`
	Files        Files                `toml:"files"`
	Telegram     telegram.Config      `toml:"telegram"`
	Discord      discord.Config       `toml:"discord"`
	CLI          cli.Config           `toml:"cli"`
	HTTP         httpserver.Config    `toml:"http"`
	Identity     Identity             `toml:"identity"`
}

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		Database:     "conversations.db",
		Log:          defaultLog(),
		LLM:          llm.Config{}.WithDefaults(),
		Embeddings:   llm.EmbeddingsConfig{}.WithDefaults(),
		Agent:        agentloop.DefaultConfig(),
		Conversation: defaultConversation(),
		Files:        defaultFiles(),
		Telegram:     telegram.DefaultConfig(),
		Discord:      discord.DefaultConfig(),
		CLI:          cli.Defaults(),
		HTTP:         httpserver.DefaultConfig(),
	}
}

// Load reads the file at path over the defaults, and secrets that it leaves
// out from the environment. With an empty path it reads DefaultPath, and where
// there is no such file, everything has its default. The error is Problems,
// all of them at once, or says why the file could not be read.
//
// $OPENAI_API_KEY is not read here: whether it is meant for the server of
// [llm] is for llm.Choose to say.
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

// LogValue returns the configuration with its secrets hidden.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(attrs(reflect.ValueOf(c))...)
}

// String returns the configuration on one line with its secrets hidden.
func (c Config) String() string { return oneLine(reflect.ValueOf(c)) }

// GoString returns the same as String, so that %#v hides secrets too.
func (c Config) GoString() string { return c.String() }
