package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"parley/agentloop"
	"parley/channels"
	"parley/channels/discord"
	"parley/cmd/gateway/config"
	"parley/conversation"
)

func (g *gateway) addDiscord() error {
	if g.cfg.Discord.Token == "" {
		return nil
	}
	channel, err := discord.New(discord.Parts{
		Config:   g.cfg.Discord,
		Store:    edits{g.store, g.router, g.feed},
		Commands: menu(),
		Health:   g.health(g.cfg.Discord.Account()),
		Log:      g.log,
	})
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	g.addBot(channel, g.cfg.Discord.Account())
	return nil
}

// edits tells the sessions of what was changed in the store.
type edits struct {
	*conversation.Store
	router *agentloop.Router
	feed   *channels.Feed
}

func (e edits) Edit(ctx context.Context, of conversation.Account, sourceID, text string, at time.Time) error {
	key, err := e.Store.Edit(ctx, of, sourceID, text, at)
	return e.tell(key, err)
}

func (e edits) Withdraw(ctx context.Context, of conversation.Account, sourceID string) error {
	key, err := e.Store.Withdraw(ctx, of, sourceID)
	return e.tell(key, err)
}

func (e edits) tell(key conversation.Key, err error) error {
	if err == nil && key != "" {
		e.router.Edited(key)
		e.feed.Changed(key)
	}
	return err
}

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

func discordCommand(configPath *string) *cobra.Command {
	command := &cobra.Command{Use: "discord", Short: "Help with setting up the Discord bot"}
	command.AddCommand(&cobra.Command{
		Use:   "invite",
		Short: "Print the link that adds the bot to a Discord server",
		Long: "Prints the link that adds the bot to a Discord server, with the permissions that it needs.\n" +
			"Open it in a browser, as somebody who may manage the server.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			if cfg.Discord.Token == "" {
				return fmt.Errorf("no Discord token: set token in the section [discord], or DISCORD_TOKEN in the environment")
			}
			link, err := discord.Invite(cmd.Context(), cfg.Discord)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), link)
			return err
		},
	})
	return command
}
