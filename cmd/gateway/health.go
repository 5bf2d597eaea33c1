package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"parley/config"
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
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "process %d serves %s\n", pid, path); err != nil {
				return err
			}
			err = showChannels(cmd, path, configuredBots(cfg))
			if errors.Is(err, conversation.ErrMoved) {
				return err
			}
			if err != nil { // which is no failure of the gateway's
				fmt.Fprintln(cmd.ErrOrStderr(), "how the channels fare can't be read:", err)
			}
			return nil
		},
	}
}

// showChannels says how the channels fare that tell of it, and of the bots those
// whose tokens are configured: of others it is only known how they fared once.
func showChannels(cmd *cobra.Command, path string, configured []conversation.Account) error {
	store, err := conversation.Open(cmd.Context(), path)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.Health(cmd.Context())
	for _, h := range list {
		name := h.Channel
		if h.Account != "" {
			if !slices.Contains(configured, conversation.Account{Channel: h.Channel, ID: h.Account}) {
				continue
			}
			name += " (bot " + h.Account + ")"
		}
		line := fmt.Sprintf("%s: %s since %s", name, h.State, h.Since.Format(time.DateTime))
		if h.Detail != "" {
			line += " (" + h.Detail + ")"
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return err
}
