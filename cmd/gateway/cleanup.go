package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cmd/gateway/config"
	"parley/conversation"
)

func cleanupCommand(configPath *string) *cobra.Command {
	var dry bool
	command := &cobra.Command{
		Use:   "cleanup",
		Short: "Delete now what the configuration no longer keeps, or only say what that is",
		Long: "Deletes what a running gateway deletes by itself every conversation.cleanup_interval: conversations\n" +
			"that were over and not used for longer than conversation.retention, and what is left of messages\n" +
			"that were answered and replies that were sent more than a week ago. It works while a gateway runs.",
		Example: "  gateway cleanup --dry-run",
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
			if dry {
				return sayWhatWouldGo(cmd, store, cfg)
			}
			return cleanUp(cmd, store, cfg)
		},
	}
	command.Flags().BoolVar(&dry, "dry-run", false, "say what would be deleted, and delete nothing")
	return command
}

func sayWhatWouldGo(cmd *cobra.Command, store *conversation.Store, cfg config.Config) error {
	cleaned, err := listing(cmd, cfg, store.WouldClean)
	if err != nil {
		return err
	}
	return sum(cmd.OutOrStdout(), "To be deleted", cleaned, cfg)
}

func cleanUp(cmd *cobra.Command, store *conversation.Store, cfg config.Config) error {
	cleaned, err := listing(cmd, cfg, store.Clean)
	if err != nil {
		return err
	}
	if err := store.Sweep(cmd.Context()); err != nil {
		return err
	}
	return sum(cmd.OutOrStdout(), "Deleted", cleaned, cfg)
}

// listing cleans, or looks, and prints a table of the conversations that go.
func listing(cmd *cobra.Command, cfg config.Config,
	clean func(context.Context, conversation.Rules, func(conversation.Outdated)) (conversation.Cleaned, error),
) (conversation.Cleaned, error) {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
	now, headed := time.Now(), false
	cleaned, err := clean(cmd.Context(), rules(cfg), func(o conversation.Outdated) {
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

func sum(out io.Writer, what string, c conversation.Cleaned, cfg config.Config) error {
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

// fileSize is a number of bytes in its largest unit.
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
