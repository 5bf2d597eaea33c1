package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/config"
	"parley/conversation"
	"parley/conversation/retention"
	"parley/gateway"
)

func cleanupCommand(configPath *string) *cobra.Command {
	var dry, trust bool
	command := &cobra.Command{
		Use:   "cleanup",
		Short: "Delete expired data now, or show what would be deleted",
		Long: "Deletes what a running gateway deletes every conversation.cleanup_interval: conversations that are\n" +
			"over and were not used for conversation.retention, and records of messages that were answered and of\n" +
			"replies that were sent more than a week ago. It works while a gateway runs.\n\n" +
			"If the clock has jumped, or no gateway ran for a while, that time counts only after a gateway has run\n" +
			"for a day. With --trust-clock it counts at once.",
		Example: "  gateway cleanup --dry-run\n  gateway cleanup --dry-run --trust-clock",
		Args:    cobra.NoArgs,
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
			rules := gateway.RetentionRules(cfg)
			rules.TrustClock = trust
			if dry {
				return dryRun(cmd, store, cfg, rules)
			}
			return cleanUp(cmd, store, cfg, rules)
		},
	}
	command.Flags().BoolVar(&dry, "dry-run", false, "show what would be deleted, and delete nothing")
	command.Flags().BoolVar(&trust, "trust-clock", false, "accept the machine's clock at once, also in gateways that are running")
	return command
}

func dryRun(cmd *cobra.Command, store *conversation.Store, cfg config.Config, rules retention.Rules) error {
	kept := retention.New(store)
	cleaned, err := listing(cmd, rules, kept.Preview)
	if err != nil {
		return err
	}
	if err := printSum(cmd.OutOrStdout(), "To be deleted", cleaned, cfg); err != nil || rules.TrustClock {
		return err
	}
	return printHeldBack(cmd, kept)
}

func cleanUp(cmd *cobra.Command, store *conversation.Store, cfg config.Config, rules retention.Rules) error {
	kept := retention.New(store)
	cleaned, err := listing(cmd, rules, kept.Clean)
	if err != nil {
		return err
	}
	if err := store.Sweep(cmd.Context()); err != nil {
		return err
	}
	if err := printSum(cmd.OutOrStdout(), "Deleted", cleaned, cfg); err != nil {
		return err
	}
	return printHeldBack(cmd, kept)
}

// printHeldBack explains that deletion is held back if the clock is ahead of the
// time that gateways have seen pass.
func printHeldBack(cmd *cobra.Command, kept *retention.Retention) error {
	clock, err := kept.Clock(cmd.Context())
	if err != nil || clock.Held() < gateway.MinHold {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nThe clock says %s, but gateways have seen time pass only until %s: none ran meanwhile, or the\n"+
		"clock is wrong. This went by the earlier time, as will every cleanup until a gateway has run for a day. If the\n"+
		"clock is right, --trust-clock goes by it now.\n",
		clock.Machine.Format(time.DateTime), clock.Trusted.Format(time.DateTime))
	return err
}

// listing calls clean, which may be a dry run, and prints a table of the
// conversations that it deletes.
func listing(cmd *cobra.Command, rules retention.Rules,
	clean func(context.Context, retention.Rules, func(retention.Outdated)) (retention.Cleaned, error),
) (retention.Cleaned, error) {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
	now, headed := time.Now(), false
	cleaned, err := clean(cmd.Context(), rules, func(o retention.Outdated) {
		if !headed {
			fmt.Fprintln(table, "SESSION\tCONVERSATION\tTITLE\tMESSAGES\tSIZE\tLAST USED")
			headed = true
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s ago\n", printable(string(o.Key)), o.ID, titled(o.Title), o.Messages, fileSize(o.Bytes), age(now.Sub(o.UpdatedAt)))
	})
	if headed {
		fmt.Fprintln(table)
	}
	if flushed := table.Flush(); err == nil {
		err = flushed
	}
	return cleaned, err
}

func titled(title string) string {
	if title = printable(title); title == "" {
		return "-"
	}
	return title
}

func printSum(out io.Writer, what string, c retention.Cleaned, cfg config.Config) error {
	kept := ""
	if cfg.Conversation.Retention == 0 {
		kept = " (conversation.retention is 0: they are kept for ever)"
	}
	_, err := fmt.Fprintf(out, "%s: %s%s, about %s; %s, %s, %s.\n", what,
		counted(c.Conversations, "conversation", "conversations"), kept, fileSize(c.Bytes),
		counted(c.Inbound, "settled inbound message", "settled inbound messages"),
		counted(c.Deliveries, "ended delivery", "ended deliveries"),
		counted(c.Pairings, "expired pairing code", "expired pairing codes"))
	return err
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// fileSize formats a number of bytes in its largest unit.
func fileSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
