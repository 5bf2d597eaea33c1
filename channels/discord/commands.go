package discord

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"github.com/bwmarrin/discordgo"

	"parley/channels"
)

// Kinds of interactions:
// https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object-interaction-type
const (
	commandUsed      = 2
	componentPressed = 3
)

// slashCommand: https://discord.com/developers/docs/interactions/application-commands#application-command-object
type slashCommand struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Type        int           `json:"type"`
	Contexts    []int         `json:"contexts"`
	Options     []slashOption `json:"options,omitempty"`
}

type slashOption struct {
	Type        int           `json:"type"`
	Name        string        `json:"name"`
	Description string        `json:"description"`
	MinValue    *int          `json:"min_value,omitempty"`
	Choices     []slashChoice `json:"choices,omitempty"`
}

// slashChoice: https://discord.com/developers/docs/interactions/application-commands#application-command-object-application-command-option-choice-structure
type slashChoice struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

const (
	chatInput      = 1
	textOption     = 3
	integerOption  = 4
	maxDescription = 100
)

// anywhere the bot is: in servers and in its DMs, and not between others.
var anywhere = []int{0, 1}

func slashCommands(commands []channels.Command) []slashCommand {
	list := make([]slashCommand, 0, len(commands))
	for _, c := range commands {
		s := slashCommand{Name: c.Name, Description: describe(c.Description), Type: chatInput, Contexts: anywhere}
		for _, o := range c.Options {
			option := slashOption{Type: textOption, Name: o.Name, Description: describe(o.Description)}
			if o.Number {
				option.Type, option.MinValue = integerOption, new(int)
			}
			for _, choice := range o.Choices {
				option.Choices = append(option.Choices, slashChoice{Name: choice, Value: choice})
			}
			s.Options = append(s.Options, option)
		}
		list = append(list, s)
	}
	return list
}

func describe(text string) string {
	if runes := []rune(text); len(runes) > maxDescription {
		return string(runes[:maxDescription-1]) + "…"
	}
	return text
}

// registerCommands registers the slash commands: globally, or in the configured servers,
// where they appear at once. In the second case it removes the global ones, since people
// would see each command twice.
func (c *Channel) registerCommands(ctx context.Context, application string) {
	list := slashCommands(c.Commands)
	everywhere := list
	if len(c.Guilds) > 0 {
		everywhere = []slashCommand{}
	}
	c.register(ctx, discordgo.EndpointApplicationGlobalCommands(application), everywhere)
	for _, guild := range c.Guilds {
		c.register(ctx, discordgo.EndpointApplicationGuildCommands(application, guild), list)
	}
}

// register overwrites the commands of an endpoint, and tries again while Discord fails. A
// server that the bot is not in does not affect the others.
func (c *Channel) register(ctx context.Context, endpoint string, list []slashCommand) {
	const failed = "slash commands not registered"
	retry := channels.NewRetry(c.Log)
	for {
		err := c.api.call(ctx, request{method: http.MethodPut, url: endpoint, limit: endpoint, body: list}, nil)
		switch {
		case err == nil:
			retry.Succeeded("slash commands registered")
			return
		case isFinal(err):
			c.Log.Warn(failed, "list", strings.TrimPrefix(endpoint, discordgo.EndpointAPI), "error", err)
			return
		}
		if retry.Wait(ctx, channels.Trouble{Level: slog.LevelWarn, Text: failed + ", trying again"}, err, refused(err).retryAfter) != nil {
			return
		}
	}
}

// option is the value of an option, as it would be written.
func (in *interaction) option(name string) (value string, given bool) {
	for _, o := range in.Data.Options {
		if o.Name != name {
			continue
		}
		var text string
		if json.Unmarshal(o.Value, &text) != nil {
			text = string(o.Value)
		}
		text = strings.TrimSpace(text)
		return text, text != ""
	}
	return "", false
}
