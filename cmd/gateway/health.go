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
	var all bool
	command := &cobra.Command{
		Use:   "health",
		Short: "Check whether the gateway on this database works; exit with status 1 if not",
		Long: "Asks the gateway on this database for its state, and prints the answer. It exits with status 0\n" +
			"if the gateway works. It exits with status 1, and prints each reason, if no gateway runs, if it\n" +
			"does not answer within " + healthTimeout.String() + " (it is stopped, or hangs), if a platform rejects the bot, if a channel\n" +
			"has ended, if replies wait while their platform has taken none for a minute, if the database can't be\n" +
			"written or is damaged, or while it starts or ends. A platform that can't be reached is no reason by\n" +
			"itself, since the gateway tries again. The command changes nothing.\n\n" +
			"With --all, it asks every gateway of this user on this machine, or in this container, whatever its\n" +
			"configuration is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			if all {
				return gateway.CheckAllHealth(ctx, cmd.OutOrStdout())
			}
			cfg, err := config.Load(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			path, err := maintenance.RealPath(cfg.Database)
			if err != nil {
				return err
			}
			return gateway.CheckHealth(ctx, cmd.OutOrStdout(), path)
		},
	}
	command.Flags().BoolVar(&all, "all", false, "ask every gateway of this user here, whatever its configuration is")
	return command
}
