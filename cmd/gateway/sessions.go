package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/config"
	"parley/conversation"
	"parley/conversation/catalog"
	"parley/gateway"
	"parley/plaintext"
	"parley/sessions"
)

func sessionsCommand(configPath *string) *cobra.Command {
	command := &cobra.Command{
		Use:   "sessions",
		Short: "List, read, search, export, archive and delete sessions and conversations",
		Long: "A session is a place people talk in, named by its key, such as telegram:chat:42. It consists of\n" +
			"conversations with ids, of which you need to type only a unique beginning. The commands work while a\n" +
			"gateway runs.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(listCommand(configPath), showCommand(configPath), searchCommand(configPath),
		exportCommand(configPath), archiveCommand(configPath), deleteCommand(configPath))
	return command
}

// withStore runs a command with the configured database open.
func withStore(configPath *string, do func(cmd *cobra.Command, args []string, store *conversation.Store) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		store, err := openStore(cmd.Context(), *configPath)
		if err != nil {
			return err
		}
		defer store.Close()
		return do(cmd, args, store)
	}
}

// withChanges is withStore for a command that changes sessions while gateways may run.
func withChanges(configPath *string, do func(cmd *cobra.Command, args []string, store *conversation.Store, changes *sessions.Service) error) func(*cobra.Command, []string) error {
	return withStore(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store) error {
		cfg, err := config.Load(*configPath, os.Getenv)
		if err != nil {
			return err
		}
		return do(cmd, args, store, gateway.Changes(store, cfg))
	})
}

func listCommand(configPath *string) *cobra.Command {
	var query catalog.SessionQuery
	var asJSON bool
	command := &cobra.Command{
		Use:     "list",
		Short:   "List sessions, the most recently used first",
		Example: "  gateway sessions list --channel telegram --text lisbon",
		Args:    cobra.NoArgs,
		RunE: withStore(configPath, func(cmd *cobra.Command, _ []string, store *conversation.Store) error {
			list, more, err := listSessions(cmd, store, query)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), sessionsJSON(list))
			}
			return printSessions(cmd.OutOrStdout(), list, more, store.Now())
		}),
	}
	command.Flags().StringVar(&query.Channel, "channel", "", "only sessions of this `CHANNEL`, such as telegram")
	command.Flags().BoolVar(&query.Archived, "archived", false, "only sessions without an active conversation")
	command.Flags().StringVar(&query.Text, "text", "", "only sessions with `TEXT` in the key, the place or a title")
	command.Flags().IntVarP(&query.Limit, "limit", "n", 50, "show at most `N` sessions; 0 means all")
	jsonFlag(command, &asJSON)
	return command
}

func jsonFlag(command *cobra.Command, asJSON *bool) {
	command.Flags().BoolVar(asJSON, "json", false, "print JSON, with stable field names")
}

// listSessions returns the sessions of a query, and reports whether there are more than its limit.
func listSessions(cmd *cobra.Command, store *conversation.Store, query catalog.SessionQuery) (list []catalog.Session, more bool, err error) {
	if query.Limit < 0 {
		return nil, false, fmt.Errorf("--limit: found %d, allowed: 0 or more", query.Limit)
	}
	list, next, err := catalog.New(store).Sessions(cmd.Context(), query)
	return list, next != "", err
}

func printSessions(out io.Writer, list []catalog.Session, more bool, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "There are no such sessions.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "SESSION\tPLACE\tCONVERSATIONS\tMESSAGES\tWAITING\tLAST USED")
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s ago\n", printableKey(s.Key), titled(s.Place), s.Conversations, s.Messages, s.Waiting, age(now.Sub(s.UsedAt)))
	}
	if err := table.Flush(); err != nil || !more {
		return err
	}
	_, err := fmt.Fprintln(out, "There are more: --limit 0 shows all.")
	return err
}

// printableKey returns a key in full, without characters that control the terminal.
func printableKey(key conversation.Key) string { return plaintext.OneLine(string(key)) }

func showCommand(configPath *string) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:     "show KEY|ID",
		Short:   "Show a session and its conversations, or one of them",
		Example: "  gateway sessions show telegram:chat:42",
		Args:    cobra.ExactArgs(1),
		RunE: withStore(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store) error {
			t, err := findTarget(cmd, store, args[0])
			if err != nil {
				return err
			}
			list, err := t.conversations(cmd.Context(), store)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), shownJSON(t.session, list))
			}
			return printShown(cmd.OutOrStdout(), t.session, list, store.Now())
		}),
		ValidArgsFunction: completeSessions(configPath),
	}
	jsonFlag(command, &asJSON)
	return command
}

func printShown(out io.Writer, s catalog.Session, list []conversation.Conversation, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "Session:\t%s\n", printableKey(s.Key))
	if s.Place != "" {
		fmt.Fprintf(table, "Place:\t%s\n", printable(s.Place))
	}
	fmt.Fprintf(table, "Begun:\t%s\n", s.CreatedAt.Format(time.DateTime))
	fmt.Fprintf(table, "Last used:\t%s, %s ago\n", s.UsedAt.Format(time.DateTime), age(now.Sub(s.UsedAt)))
	fmt.Fprintf(table, "In all:\t%s, %s, %s\n", counted(s.Conversations, "conversation", "conversations"),
		counted(s.Messages, "message", "messages"), counted(s.Tokens, "token", "tokens"))
	if s.Waiting > 0 {
		fmt.Fprintf(table, "Waiting:\t%s for an answer\n", counted(s.Waiting, "message", "messages"))
	}
	if err := table.Flush(); err != nil || len(list) == 0 {
		return err
	}
	fmt.Fprintln(table, "\nCONVERSATION\tTITLE\tMESSAGES\tTOKENS\tBEGUN\tLAST USED\tSTATE")
	for _, c := range list {
		state := "archived"
		if c.Active {
			state = "active"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s ago\t%s\n", c.ID, titled(c.Title), c.Messages, c.Tokens,
			c.CreatedAt.Format(time.DateOnly), age(now.Sub(c.UpdatedAt)), state)
	}
	return table.Flush()
}
