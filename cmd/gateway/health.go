package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"parley/cmd/gateway/config"
	"parley/conversation"
)

func healthCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Say whether a gateway serves this database; status 1 when none does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			path, err := filepath.Abs(cfg.Database)
			if err != nil {
				return err
			}
			pid, err := conversation.DaemonPID(path)
			if err != nil {
				return err
			}
			if pid == 0 {
				return fmt.Errorf("no gateway serves %s", path)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "process %d serves %s\n", pid, path)
			return err
		},
	}
}
