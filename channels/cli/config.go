package cli

import (
	"fmt"
	"regexp"

	"parley/conversation"
)

// Config is the [cli] table of the configuration.
type Config struct {
	Session string `toml:"session" kind:"name"` // name of the terminal's session; default "default"
}

// DefaultSession is the session that a terminal opens when none is named.
const DefaultSession = "default"

// Defaults returns the configuration of an empty file.
func Defaults() Config { return Config{Session: DefaultSession} }

var sessionName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ValidateSession returns a sentence that says why name can't name a session.
func ValidateSession(name string) error {
	if !sessionName.MatchString(name) {
		return fmt.Errorf("session name %q: use 1 to 64 letters, digits, '-', '_' or '.'", name)
	}
	return nil
}

// Key returns the key of a terminal's session: "cli:NAME".
func Key(name string) conversation.Key {
	return conversation.Key(ChannelName + ":" + name)
}
