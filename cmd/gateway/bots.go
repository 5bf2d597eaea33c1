package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/config"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/plaintext"
)

func botsCommand(configPath *string) *cobra.Command {
	command := &cobra.Command{
		Use:   "bots",
		Short: "List the bots that have served, and hand over the work of those that are gone",
		Long: "A message is answered by the bot that it was written to. If you replace a token by that of\n" +
			"another bot, messages and replies of the former bot wait until its token is back.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(botsListCommand(configPath), botsReleaseCommand(configPath))
	return command
}

func botsListCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all bots, with or without a token here, and what waits for them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			store, err := openStore(cmd.Context(), *configPath)
			if err != nil {
				return err
			}
			defer store.Close()
			list, err := bots.New(store).List(cmd.Context())
			if err != nil {
				return err
			}
			return printBots(cmd.OutOrStdout(), list, configuredBots(cfg), store.Now())
		},
	}
}

func botsReleaseCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "release CHANNEL:BOT",
		Short: "Hand over what waits for a bot to the bot that now serves the channel",
		Long: "Lets the bot that now serves the channel answer and send what waits for this one, whose token\n" +
			"will not come back. A private chat gets the answers only if the person has written to the other\n" +
			"bot; otherwise the platform refuses the reply, which is then listed under Deliveries in the\n" +
			"console.",
		Example: "  gateway bots release telegram:7000001",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			channel, id, ok := strings.Cut(args[0], ":")
			if !ok || channel == "" || id == "" {
				return fmt.Errorf("bots release: found %q, allowed: CHANNEL:BOT, such as telegram:7000001, as `gateway bots list` shows them", args[0])
			}
			store, err := openStore(cmd.Context(), *configPath)
			if err != nil {
				return err
			}
			defer store.Close()
			bot := conversation.Account{Channel: channel, ID: id}
			released, err := bots.New(store).Release(cmd.Context(), bot)
			if errors.Is(err, bots.ErrNotFound) {
				return fmt.Errorf("%w; `gateway bots list` shows the bots", err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: released %s and %s. A gateway handles them at its next start.\n",
				bot, counted(released.Waiting, "message", "messages"), counted(released.Due, "reply", "replies"))
			return err
		},
	}
}

// configuredBots returns the bots whose tokens are configured.
func configuredBots(cfg config.Config) []conversation.Account {
	var bots []conversation.Account
	if cfg.Telegram.Token != "" {
		bots = append(bots, cfg.Telegram.Account())
	}
	if cfg.Discord.Token != "" {
		bots = append(bots, cfg.Discord.Account())
	}
	return bots
}

func printBots(out io.Writer, list []bots.Bot, configured []conversation.Account, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "No bot has served this database yet.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CHANNEL\tBOT\tTOKEN\tSTATE\tSINCE\tLET IN\tWAITING\tUNSENT")
	for _, b := range list {
		token, state, since := "configured", cmp.Or(b.State, "-"), "-"
		if !b.Since.IsZero() {
			since = age(now.Sub(b.Since))
		}
		if !slices.Contains(configured, b.Account) {
			token, state = "none", "-" // whatever it was when the bot served last
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", b.Channel, plaintext.OneLine(b.ID), token, state, since, b.LetIn, b.Waiting, b.Due)
	}
	return table.Flush()
}
