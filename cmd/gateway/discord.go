package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"parley/channels/discord"
	"parley/config"
)

func discordCommand(configPath *string) *cobra.Command {
	command := &cobra.Command{Use: "discord", Short: "Set up the Discord bot"}
	command.AddCommand(&cobra.Command{
		Use:   "invite",
		Short: "Print the link that adds the bot to a Discord server",
		Long: "Prints the link that adds the bot to a Discord server, with the permissions that it needs.\n" +
			"Open it in a browser, as somebody who may manage the server.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origins, err := config.LoadWithOrigins(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			if cfg.Discord.Token == "" {
				return fmt.Errorf("no Discord token: set token in the section [discord], or DISCORD_TOKEN in the environment")
			}
			link, err := discord.Invite(cmd.Context(), cfg.Discord, origins["discord.token"].Place())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), link)
			return err
		},
	})
	return command
}
