package discord

import (
	"slices"
	"strings"
	"unicode/utf8"

	"parley/channels"
	"parley/conversation"
	"parley/plaintext"
)

// Limits of buttons: https://discord.com/developers/docs/components/reference#button
const (
	maxRows     = 5
	maxInRow    = 5
	maxLabel    = 80
	maxCustomID = 100

	rowComponent    = 1
	buttonComponent = 2
	secondaryStyle  = 2 // a grey button
)

// component is a button, or a row of them.
type component struct {
	Type       int         `json:"type"`
	Style      int         `json:"style,omitempty"`
	Label      string      `json:"label,omitempty"`
	CustomID   string      `json:"custom_id,omitempty"` // the command that a press of the button sends
	Components []component `json:"components,omitempty"`
}

// buttons offers actions. Those that Discord can't show are left out: their
// commands can still be written.
func buttons(actions []conversation.Action) *[]component {
	rows := []component{}
	var given []string
	for _, a := range actions {
		label := []rune(plaintext.OneLine(a.Label))
		known := slices.Contains(given, a.Command)
		if len(label) == 0 || known || utf8.RuneCountInString(a.Command) > maxCustomID || !isCommand(a.Command) || len(given) == maxRows*maxInRow {
			continue
		}
		given = append(given, a.Command)
		if len(given)%maxInRow == 1 {
			rows = append(rows, component{Type: rowComponent})
		}
		last := &rows[len(rows)-1]
		last.Components = append(last.Components, component{
			Type: buttonComponent, Style: secondaryStyle, Label: string(label[:min(len(label), maxLabel)]), CustomID: a.Command,
		})
	}
	return &rows
}

// isCommand tells a command from what is said to the assistant.
func isCommand(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "/") }

// commandText is a slash command as it would be written: the options in the
// order in which they were registered. One that was left out before one that
// was given stands with its default.
func commandText(commands []channels.Command, in *interaction) string {
	if in.Type == componentPressed {
		return in.Data.CustomID
	}
	words := []string{"/" + in.Data.Name}
	i := slices.IndexFunc(commands, func(c channels.Command) bool { return c.Name == in.Data.Name })
	if i < 0 {
		return words[0]
	}
	var left []string // defaults of options that were left out so far
	for _, o := range commands[i].Options {
		value, ok := in.option(o.Name)
		switch {
		case ok:
			words = append(append(words, left...), value)
			left = nil
		case o.Default != "":
			left = append(left, o.Default)
		}
	}
	return strings.Join(words, " ")
}
