package gateway

import (
	"parley/agentloop"
	"parley/channels"
)

// options are what may stand behind the commands, for platforms that ask for
// it word by word.
var options = map[string][]channels.Option{
	"new": {{Name: "title", Description: "What the new conversation is called"}},
	"history": {
		{Name: "which", Description: "\"list\" for the conversations of this place, \"#2\" for one of them"},
		{Name: "count", Description: "How many exchanges; of the list: which page", Number: true, Default: "5"},
		{Name: "skip", Description: "How many of the newest exchanges to leave out", Number: true},
	},
	"search": {{Name: "words", Description: "What to look for; words in quotes stand together"}},
	"resume": {{Name: "which", Description: "Its number in the list, a part of its title, or its id; without it, the list"}},
	"title":  {{Name: "text", Description: "What this conversation is called from now on"}},
	"export": {{Name: "format", Description: "\"md\" to be read, \"json\" or \"jsonl\" for programs", Default: "md"}},
	"clear":  {{Name: "confirmation", Description: "What /clear asks for: \"yes\", and in a group a code"}},
}

// forAsker are the commands whose answer is of interest to who asks alone.
var forAsker = map[string]bool{"history": true, "search": true, "status": true, "state": true, "export": true}

// menu is the list of commands as platforms show it.
func menu() []channels.Command {
	var list []channels.Command
	for _, c := range agentloop.Commands() {
		list = append(list, channels.Command{Name: c.Name, Description: c.Description, Options: options[c.Name], Private: forAsker[c.Name]})
	}
	return list
}
