package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"parley/config"
	"parley/conversation/maintenance"
	"parley/conversation/move"
)

func migrateCommand(configPath *string) *cobra.Command {
	var passwordFile string
	command := &cobra.Command{
		Use:   "migrate FROM TO",
		Short: "Move the whole database from a SQLite file to PostgreSQL, or back",
		Long: "One of FROM and TO is a SQLite file, the other one the URL of a PostgreSQL database. Everything that is\n" +
			"stored is copied to TO under the same ids, files of messages included, and then compared row by row. FROM\n" +
			"is not changed. TO must be a new file, or an empty database. Stop the gateway, and all other commands, first.\n" +
			"If the command is interrupted, call it again: it goes on where it was. No gateway starts on a database that is\n" +
			"only moved in part. Then write TO into the configuration as `database`. The search index is made anew\n" +
			"while the gateway runs.",
		Example: "  gateway migrate conversations.db postgres://parley@db.example.org/parley\n" +
			"  gateway migrate postgres://parley@db.example.org/parley conversations.db",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if passwordFile == "" {
				cfg, err := config.Load(*configPath, os.Getenv)
				if err != nil {
					return err
				}
				passwordFile = cfg.DatabasePasswordFile
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			began, bars := time.Now(), &stepBars{out: cmd.ErrOrStderr()}
			r, err := move.Move(ctx, move.Config{From: args[0], To: args[1], PasswordFile: passwordFile, Progress: bars.show})
			bars.finish()
			if err != nil && ctx.Err() != nil {
				return errors.New("interrupted; call the command again, and it goes on where it was")
			}
			if err != nil {
				return err
			}
			return printMoved(cmd.OutOrStdout(), r, time.Since(began))
		},
	}
	command.Flags().StringVar(&passwordFile, "password-file", "", "`FILE` with the password of the PostgreSQL database (default: database_password_file of the configuration)")
	return command
}

func printMoved(out io.Writer, r move.Result, took time.Duration) error {
	if r.Restarted {
		fmt.Fprintln(out, "The database was used since the move was interrupted, so all of it was copied again.")
	} else if r.Continued > 0 {
		fmt.Fprintf(out, "An interrupted move had copied %s already.\n", counted(r.Continued, "row", "rows"))
	}
	if r.Replaced > 0 {
		fmt.Fprintf(out, "%s had characters that PostgreSQL can't store; \uFFFD stands in their place.\n", counted(r.Replaced, "text", "texts"))
	}
	if r.LostFiles > 0 {
		fmt.Fprintf(out, "%s could not be copied: their bytes are missing or damaged, as `gateway verify` says.\n", counted(r.LostFiles, "file", "files"))
	}
	what := contents(maintenance.Contents{Sessions: r.Sessions, Conversations: r.Conversations, Messages: r.Messages, Files: r.Files})
	_, err := fmt.Fprintf(out, "Moved %s, in %s. All %s are the same in both databases.\n", what, took.Round(100*time.Millisecond), counted(r.Rows, "row", "rows"))
	return err
}
