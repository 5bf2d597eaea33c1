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

// healthTimeout is how long a gateway may take to answer: longer than it takes to
// find that its store does not, and shorter than the time that container engines
// leave to such a check.
const healthTimeout = 4 * time.Second

func healthCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Say how the gateway on this database fares; status 1 when it does not serve",
		Long: "Asks the gateway on this database how it fares, and prints what it answers. The status is 0\n" +
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
