package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cmd/gateway/config"
	"parley/conversation"
)

func botsCommand(configPath *string) *cobra.Command {
	command := &cobra.Command{
		Use:   "bots",
		Short: "List the bots that have served, and what waits for those that are gone",
		Long: "A message is answered by the bot that it was written to. Where a token was replaced by\n" +
			"another bot's, what the former bot has not answered or sent waits for its token.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(botsListCommand(configPath), botsReleaseCommand(configPath))
	return command
}

func botsListCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the bots, whether they have a token here, and what waits for them",
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
			bots, err := store.Bots(cmd.Context())
			if err != nil {
				return err
			}
			return printBots(cmd.OutOrStdout(), bots, configuredBots(cfg), time.Now())
		},
	}
}

func botsReleaseCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "release CHANNEL:BOT",
		Short: "Let whichever bot serves the channel answer and send what waits for this one",
		Long: "Lets whichever bot serves the channel answer and send what waits for this one, whose token\n" +
			"will not come back. In groups people see the answers. In a private chat they do when they\n" +
			"have written to the other bot; else the platform refuses the reply, which then stands under\n" +
			"Deliveries in the console.",
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
			released, err := store.ReleaseBot(cmd.Context(), bot)
			if errors.Is(err, conversation.ErrNoBot) {
				return fmt.Errorf("%w; `gateway bots list` shows the bots", err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: released %s and %s. A gateway takes them up when it starts.\n",
				bot, counted(released.Waiting, "message", "messages"), counted(released.Due, "reply", "replies"))
			return err
		},
	}
}

// configuredBots are the bots whose tokens the configuration has.
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

func printBots(out io.Writer, bots []conversation.Bot, configured []conversation.Account, now time.Time) error {
	if len(bots) == 0 {
		_, err := fmt.Fprintln(out, "No bot has served this database yet.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CHANNEL\tBOT\tTOKEN\tSTATE\tSINCE\tLET IN\tWAITING\tUNSENT")
	for _, b := range bots {
		token, state, since := "configured", cmp.Or(b.State, "-"), "-"
		if !b.Since.IsZero() {
			since = age(now.Sub(b.Since))
		}
		if !slices.Contains(configured, b.Account) {
			token, state = "none", "-" // whatever it was when the bot served last
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", b.Channel, b.ID, token, state, since, b.LetIn, b.Waiting, b.Due)
	}
	return table.Flush()
}

// beginService tells the store which bot serves a channel from now on, and the
// operator when it is another one than before. While the store fails it tries
// again, until ctx ends.
func (g *gateway) beginService(ctx context.Context, bot conversation.Account) {
	var found conversation.Takeover
	err := conversation.Persist(ctx, g.log, "store which bot serves "+bot.Channel, func() (err error) {
		found, err = g.store.BeginService(ctx, bot)
		return err
	})
	if err != nil {
		return // the gateway ends
	}
	log := g.log.With("channel", bot.Channel, "bot_id", bot.ID)
	if found.Former != "" {
		log.Warn("the token is of another bot than before: whoever was let in by a code of the former bot needs one of this bot, "+
			"and what the former bot has not answered or sent waits for its token", "former_bot_id", found.Former)
	}
	for _, left := range found.Left {
		log.Warn("messages or replies wait for a bot that this gateway does not serve: start one with its token, or see gateway bots",
			"waits_for_bot_id", left.Account, "inbox_waiting", left.Waiting, "outbox_due", left.Due)
	}
}
