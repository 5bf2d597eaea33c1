package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"parley/conversation/maintenance"
)

func restoreCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a copy in place of the database, and keep the old one beside it",
		Long: "FILE is a copy made by `gateway backup`, or another database of a gateway. It is checked first, and is not\n" +
			"changed. Stop the gateway before: while a process has the database open, nothing is changed. The old\n" +
			"database, with its write-ahead log, is kept beside the new one under a name that the command prints.",
		Example: "  gateway restore /var/backups/parley-2026-03-01.db",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			database, err := configuredDatabase(*configPath)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			bars := &stepBars{out: cmd.ErrOrStderr()}
			r, err := maintenance.Restore(ctx, args[0], database, bars.show)
			bars.finish()
			out := cmd.OutOrStdout()
			if r.Earlier != "" {
				fmt.Fprintf(out, "An interrupted restore of %s was finished first.\n", r.Earlier)
				printSetAside(out, r.EarlierAt)
			}
			if errors.Is(err, context.Canceled) {
				return errors.New("interrupted; the database is as it was")
			}
			if err != nil {
				return err
			}
			what := contents(r.Contents)
			if r.Finished {
				what = "the restore that was interrupted is finished"
			}
			fmt.Fprintf(out, "%s is now what %s holds: %s.\n", database, args[0], what)
			return printSetAside(out, r.SetAside)
		},
	}
}

func printSetAside(out io.Writer, files []string) error {
	if len(files) == 0 {
		_, err := fmt.Fprintln(out, "No database was there before.")
		return err
	}
	_, err := fmt.Fprintf(out, "What was there before is kept: %s. Delete it when you no longer need it.\n", strings.Join(files, ", "))
	return err
}
