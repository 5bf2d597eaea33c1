package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"parley/gateway"
)

func retryCommand(configPath *string) *cobra.Command {
	var since time.Duration
	command := &cobra.Command{
		Use:   "retry",
		Short: "Answer what got no answer because of the model",
		Long: "Has the model asked now for every message that waits because the model could not be called, and for\n" +
			"every message that failed for such a reason: the model was busy, down or out of reach, or refused the\n" +
			"key or the account. A failed message is left alone if its chat has had another answer or conversation\n" +
			"since. Programs got an error at once, and are not answered. The gateways that run on the database do it\n" +
			"within seconds, the oldest messages first; without one, the next start does.",
		Example: "  gateway retry\n  gateway retry --since 6h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := openStore(cmd.Context(), *configPath)
			if err != nil {
				return err
			}
			defer store.Close()
			var from time.Time
			if since > 0 {
				from = store.Now().Add(-since)
			}
			done, err := gateway.RetryUnanswered(cmd.Context(), store, from)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s in %s waited and are tried now. %s answered again.\n",
				counted(int64(done.Messages), "message", "messages"), counted(int64(done.Sessions), "session", "sessions"), counted(int64(done.Failed), "failed message is", "failed messages are"))
			return err
		},
	}
	command.Flags().DurationVar(&since, "since", 0, "only messages that failed within this `DURATION`, such as 6h (default all of the last week)")
	return command
}
