package gateway

import (
	"parley/agentloop"
	"parley/channels"
)

// menu is the list of commands as platforms show it.
func menu() []channels.Command {
	var list []channels.Command
	for _, c := range agentloop.Commands() {
		command := channels.Command{Name: c.Name, Description: c.Description, Private: c.Private}
		for _, o := range c.Options {
			command.Options = append(command.Options, channels.Option(o))
		}
		list = append(list, command)
	}
	return list
}
