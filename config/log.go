package config

// Log is the [log] section.
type Log struct {
	// Level is the least that is logged: "debug", "info", "warn" or "error". While
	// it is not set, that is "info", and "warn" where a chat is on the terminal.
	Level *string `toml:"level" oneof:"debug info warn error"`

	// Format is "text" for people or "json" for machines. Default "text".
	Format string `toml:"format" oneof:"text json"`
}

func defaultLog() Log { return Log{Format: "text"} }
