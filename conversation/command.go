package conversation

import (
	"regexp"
	"strings"
)

// Command is a message that acts on its session instead of going to the model:
// "/title Trip to Rome".
type Command struct {
	Name      string // lower case, without the slash
	Arguments string
}

// A path such as /etc/hosts is no command.
var commandForm = regexp.MustCompile(`(?s)^\s*/([A-Za-z][A-Za-z0-9_-]{0,31})(?:\s+(.*))?$`)

// ParseCommand reads a text that has the form of a command. Whether a message
// is one depends on more than its text: see Inbound.Command.
func ParseCommand(text string) (command Command, ok bool) {
	if trimmed := strings.TrimLeft(text, " \t\r\n"); trimmed == "" || trimmed[0] != '/' {
		return Command{}, false
	}
	found := commandForm.FindStringSubmatch(text)
	if found == nil {
		return Command{}, false
	}
	return Command{Name: strings.ToLower(found[1]), Arguments: strings.TrimSpace(found[2])}, true
}

// Command returns the command that the message gives, if it gives one.
func (in Inbound) Command() (command Command, ok bool) {
	if in.NeverCommand {
		return Command{}, false
	}
	return ParseCommand(in.Text)
}
