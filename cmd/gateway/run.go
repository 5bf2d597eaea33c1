package main

import (
	"os"

	"github.com/spf13/cobra"

	"parley/channels/cli"
	"parley/gateway"
	"parley/httpserver"
)

func runCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the gateway: every channel with a token, HTTP, and a chat in this terminal",
		Long: "Serves every channel that has a token, and HTTP on this machine (http://" + httpserver.DefaultListen + "/).\n" +
			"If standard input is a terminal, it prints a link that signs a browser in, opens a chat, and\n" +
			"stops when you leave the chat; `gateway token link` prints another link. Otherwise it runs until\n" +
			"SIGTERM or SIGINT. While the server of its database can't be reached, it waits before it starts.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := gateway.Options{ConfigPath: *configPath, Version: version(), Daemon: true, DocumentReader: documentReader(), ServerGuard: serverGuard()}
			if cli.IsInteractive(os.Stdin, os.Stdout) {
				options.Terminal = &gateway.Terminal{}
			}
			g, err := gateway.New(cmd.Context(), options)
			if err != nil {
				return err
			}
			defer g.Close()
			return g.Run(cmd.Context())
		},
	}
}
