package main

import (
	"context"
	"errors"
	"os"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"parley/channels/api"
	"parley/config"
)

func mcpServeCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Offer a running gateway to a program that speaks MCP, over standard input and output",
		Long: "A program such as an editor or another assistant starts this command and talks to it over standard\n" +
			"input and output. It may search and read the archive, list sessions, and send messages in sessions\n" +
			"of its own (api:NAME). A gateway must run, with HTTP. docs/mcp.md shows how to set it up.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := config.Load(*configPath, os.Getenv); err != nil {
				return err
			}
			return api.Relay(cmd.Context(), &sdk.StdioTransport{}, version(), func(ctx context.Context) (url, token string, err error) {
				return gatewayForPrograms(ctx, *configPath)
			})
		},
	}
}

// gatewayForPrograms returns where the running gateway serves HTTP, and its token.
func gatewayForPrograms(ctx context.Context, configPath string) (url, token string, err error) {
	server, store, err := runningServer(ctx, configPath)
	if err != nil {
		return "", "", err
	}
	defer store.Close()
	cfg, err := config.Load(configPath, os.Getenv)
	if err != nil {
		return "", "", err
	}
	if token, err = tokenOf(cfg); err != nil && !errors.Is(err, errNoAuth) {
		return "", "", err
	}
	return strings.TrimSuffix(server.URLs[0], "/"), token, nil
}
