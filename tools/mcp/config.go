package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"parley/plaintext"
)

// Config is a section [mcp.NAME]: a server of tools, which is a program that the gateway runs
// or an address.
type Config struct {
	// Command is the program, found through PATH or relative to Folder. Default none.
	Command string `toml:"command"`
	// Args are its arguments. Default none.
	Args []string `toml:"args"`
	// Env are its environment variables, beside those of Inherited. Default none.
	Env map[string]string `toml:"env" kind:"secrets"`
	// Folder is where it runs, relative to the configuration file. Default ".".
	Folder string `toml:"folder" kind:"path"`

	// URL is the address of a server that runs elsewhere. Default none.
	URL string `toml:"url" kind:"url"`
	// Headers are sent with each request to URL. Default none.
	Headers map[string]string `toml:"headers" kind:"secrets"`

	// Allow are patterns of what the model may use, with * for any characters: names of
	// tools, "resource:URI" and "prompt:NAME". Default: everything.
	Allow []string `toml:"allow"`
	// Deny are patterns of what it may not use, whatever Allow says. Default none.
	Deny []string `toml:"deny"`
	// Timeout is how long one call may take. Default 60s.
	Timeout time.Duration `toml:"timeout" min:"1ms"`
	// MaxOutput is how much of a result the model is shown, in KiB; the rest it reads as a
	// file. Default 256.
	MaxOutput int `toml:"max_output" min:"1" max:"8192"`
	// Approve says which calls a person must allow before they are made. Default: as
	// [tools] says.
	Approve string `toml:"approve" oneof:"never destructive changes ask"`
	// Eager keeps the server running from the start on. Without it, the server is started
	// by its first call. Default false.
	Eager bool `toml:"eager"`

	// Tools say what calls of single tools do, in place of what the server says of them.
	Tools map[string]ToolConfig `toml:"tools"`
}

// ToolConfig is a section [mcp.NAME.tools.TOOL].
type ToolConfig struct {
	// ReadOnly says that the tool changes nothing. Default: as the server says.
	ReadOnly *bool `toml:"read_only"`
	// Idempotent says that a call which is made twice has the effect of one. Default: as the
	// server says.
	Idempotent *bool `toml:"idempotent"`
	// Approve says which calls a person must allow before they are made. Default: as the
	// server's section says.
	Approve string `toml:"approve" oneof:"never destructive changes ask"`
	// Key gives each call an idempotency key, by which the server recognizes a call that is
	// made again. Default false.
	Key bool `toml:"key"`
}

// Inherited are the environment variables of the gateway that its servers get, too.
var Inherited = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// SetDefaults sets the keys that have a default.
func (c *Config) SetDefaults() {
	c.Folder = "."
	c.Timeout = time.Minute
	c.MaxOutput = 256
}

var serverName = regexp.MustCompile(`^[a-zA-Z0-9-]{1,24}$`)

// AllowedName returns what names of servers are allowed, "" if this is one.
func (Config) AllowedName(name string) string {
	if serverName.MatchString(name) {
		return ""
	}
	return "a name of 1 to 24 letters, digits or '-', which the names of its tools begin with"
}

// Check reports keys that do not suit each other.
func (c Config) Check(report func(key, found, allowed string)) {
	switch {
	case c.Command == "" && c.URL == "":
		report("command", "neither a command nor a url", "one of the two: the program to run, or the address of a server")
	case c.Command != "" && c.URL != "":
		report("url", "both a command and a url", "one of the two")
	}
	if c.Command == "" {
		if len(c.Args) > 0 {
			report("args", "arguments without a command", "args beside command")
		}
		if len(c.Env) > 0 {
			report("env", "an environment without a command", "env beside command")
		}
	}
	if c.URL == "" && len(c.Headers) > 0 {
		report("headers", "headers without a url", "headers beside url")
	}
}

// CheckKeys reports names and values that neither an environment nor HTTP can have.
func (c Config) CheckKeys(report func(key, found, allowed string)) {
	for name := range c.Env {
		if strings.ContainsAny(name, "=\x00") || name == "" {
			report("env", "a name with = in it, or an empty one", "names of environment variables")
		}
	}
	for name, value := range c.Headers {
		if !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			report("headers", "a header that HTTP does not allow", `headers such as Authorization = "Bearer TOKEN"`)
		}
	}
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// secrets returns the words of the environment and of the headers: all that may be secrets, and those that are.
func (c Config) secrets() (all, named []string) {
	for _, texts := range []map[string]string{c.Env, c.Headers} {
		for name, text := range texts {
			all, named = append(all, plaintext.LongWords(text)...), append(named, plaintext.SecretWords(name, text)...)
		}
	}
	return all, named
}

// listForm is the form of stored lists of tools. Lists of another form are read from their servers again.
const listForm = 2

// settings returns a hash of what decides which server runs. Its secrets can't be read from it.
func (c Config) settings() string {
	text, err := json.Marshal([]any{c.Command, c.Args, c.Folder, c.URL, listForm})
	if err != nil { // texts can always be written
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// allows reports whether the model may use something of this name.
func (c Config) allows(name string) bool {
	return (len(c.Allow) == 0 || matchesAny(c.Allow, name)) && !matchesAny(c.Deny, name)
}

// allowsSome reports whether the model may use anything whose name begins like this.
func (c Config) allowsSome(prefix string) bool {
	if matchesAny(c.Deny, prefix+"*") {
		return false
	}
	for _, pattern := range c.Allow {
		before, _, _ := strings.Cut(pattern, "*")
		if strings.HasPrefix(before, prefix) || strings.HasPrefix(prefix, before) && before != pattern {
			return true
		}
	}
	return len(c.Allow) == 0
}

func matchesAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		whole := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$"
		if regexp.MustCompile(whole).MatchString(name) {
			return true
		}
	}
	return false
}
