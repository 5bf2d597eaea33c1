package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"parley/conversation/maintenance"
)

func repairCommand(configPath *string) *cobra.Command {
	var force bool
	var from string
	command := &cobra.Command{
		Use:   "repair NEW",
		Short: "Save what can be read of a damaged database into a new file",
		Long: "Reads every row that is still readable, and makes a new database of them in the file NEW. The damaged\n" +
			"database is not changed. Stop the gateway first. The command reports what is lost, by session, and puts an\n" +
			"internal message in the place of each lost one. Then `gateway restore NEW` puts the new file in place.\n" +
			"If you have a recent backup, restoring that may lose less.",
		Example: "  gateway repair saved.db && gateway restore saved.db",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			database := from
			if from == "" {
				var err error
				if database, err = existingDatabase(*configPath); err != nil {
					return err
				}
			}
			target, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			bars := &stepBars{out: cmd.ErrOrStderr()}
			r, err := maintenance.Repair(ctx, database, target, maintenance.RepairOptions{Force: force, Progress: bars.show})
			bars.finish()
			if err != nil && ctx.Err() != nil {
				return fmt.Errorf("interrupted; %s was not written", target)
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s holds what could be read of %s: %s.\n", target, database, contents(r.Contents))
			if r.Log {
				fmt.Fprintf(out, "The write-ahead log beside %s belongs to another file and was left out.\n", database)
			}
			if len(r.Losses) == 0 {
				fmt.Fprintln(out, "No message is lost.")
			} else {
				fmt.Fprintln(out, "Lost or left out:")
				printFindings(out, r.Losses)
			}
			if from == "" {
				_, err = fmt.Fprintf(out, "%s is as it was. To use the new file: gateway restore %s\n", database, target)
			}
			return err
		},
	}
	command.Flags().BoolVar(&force, "force", false, "replace NEW if it exists")
	command.Flags().StringVar(&from, "from", "", "read `FILE`, such as a damaged copy, instead of the database")
	return command
}
