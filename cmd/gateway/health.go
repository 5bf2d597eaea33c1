package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"parley/config"
	"parley/conversation/maintenance"
	"parley/gateway"
)

// healthTimeout limits how long a gateway may take to answer: longer than the
// gateway waits for its store, and shorter than what container engines allow a
// health check (5 s in the Dockerfile).
const healthTimeout = 4 * time.Second

func healthCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Check whether the gateway on this database works; status 1 if it does not",
		Long: "Asks the gateway on this database for its state, and prints the answer. The status is 0\n" +
			"when it serves, and 1, with a line for each reason, when none runs, when it does not answer\n" +
			"within " + healthTimeout.String() + " (it is stopped, or hangs), when a platform rejects the bot, a channel has ended, or\n" +
			"the database can't be written or is damaged. A platform that is away is no such reason.\n" +
			"It takes at most a second longer, and changes nothing.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			path, err := maintenance.RealPath(cfg.Database)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			return gateway.CheckHealth(ctx, cmd.OutOrStdout(), path)
		},
	}
}
