package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"parley/config"
	"parley/conversation"
	"parley/conversation/maintenance"
	"parley/gateway"
)

// openStore opens the configured database, which a running gateway may have open,
// too. It creates none, since that would hide that the command runs in a wrong folder.
func openStore(ctx context.Context, configPath string) (*conversation.Store, error) {
	cfg, err := config.Load(configPath, os.Getenv)
	if err != nil {
		return nil, err
	}
	path := cfg.Database
	if !maintenance.OnServer(path) {
		if path, err = existingDatabase(configPath); err != nil {
			return nil, err
		}
	}
	store := gateway.StoreConfig(cfg, path)
	store.Node.Version, store.Node.Command = version(), subcommand(ctx)
	return conversation.Open(ctx, store)
}

type subcommandKey struct{}

// noteSubcommand stores in the context of a command what it is called, for those who look at the nodes of a database.
func noteSubcommand(cmd *cobra.Command, _ []string) {
	name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	cmd.SetContext(context.WithValue(cmd.Context(), subcommandKey{}, name))
}

// subcommand returns what noteSubcommand has stored, such as "sessions list".
func subcommand(ctx context.Context) string {
	name, _ := ctx.Value(subcommandKey{}).(string)
	return name
}
