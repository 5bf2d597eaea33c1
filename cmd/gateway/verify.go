package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"parley/conversation/maintenance"
	"parley/gateway"
	"parley/plaintext"
)

func verifyCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check the database, or a copy, for damage; exit with status 1 if there is any",
		Long: "Reads the whole database and writes nothing; it works while the gateway runs. It runs SQLite's checks, and\n" +
			"checks whether sessions, conversations, messages, inbox and outbox agree, the search index, and the files of\n" +
			"messages. For damage it names the sessions, conversations and messages that are affected.",
		Example: "  gateway verify\n  gateway verify /var/backups/parley-2026-03-01.db",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := ""
			if len(args) > 0 {
				path = args[0]
			} else {
				var err error
				if path, err = existingDatabase(*configPath); err != nil {
					return err
				}
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			bars := &stepBars{out: cmd.ErrOrStderr()}
			v, err := maintenance.Verify(ctx, path, bars.show)
			bars.finish()
			if err != nil && ctx.Err() != nil {
				return errors.New("interrupted; the database was not checked completely")
			}
			if err != nil {
				return err
			}
			return printVerified(cmd.OutOrStdout(), path, v)
		},
	}
}

func printVerified(out io.Writer, path string, v maintenance.Verified) error {
	if len(v.Findings) == 0 {
		_, err := fmt.Fprintf(out, "%s is whole: %s.\n", path, contents(v.Contents))
		return err
	}
	fmt.Fprintf(out, "%s: %s.\n", path, counted(int64(len(v.Findings)), "problem", "problems"))
	printFindings(out, v.Findings)
	fmt.Fprintln(out, "To go back to a copy: `gateway restore COPY`. To save what can be read: `gateway repair NEW`.")
	return gateway.ErrReported
}

// printFindings prints a line for each finding, without control characters.
func printFindings(out io.Writer, list []maintenance.Finding) {
	for _, f := range list {
		fmt.Fprintln(out, "-", plaintext.OneLine(f.Text))
	}
}
