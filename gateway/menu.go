package gateway

import (
	"parley/agentloop/command"
	"parley/channels"
)

// menu returns the commands for the menus of the platforms.
func menu() []channels.Command {
	var list []channels.Command
	for _, c := range command.All() {
		entry := channels.Command{Name: c.Name, Description: c.Description, Private: c.Private}
		for _, o := range c.Options {
			entry.Options = append(entry.Options, channels.Option(o))
		}
		list = append(list, entry)
	}
	return list
}
