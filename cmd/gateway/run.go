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
		Short: "Serve every channel that has a token, browsers, and this terminal",
		Long: "Serves every channel that has a token, and HTTP on this machine (http://" + httpserver.DefaultListen + "/),\n" +
			"with a link on the terminal that signs a browser in; `gateway token link` prints another.\n" +
			"With a terminal on standard input it also opens a chat there, and ends when that is left;\n" +
			"without one it serves until SIGTERM or SIGINT.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := gateway.Options{ConfigPath: *configPath, Version: version(), Daemon: true, DocumentReader: documentReader()}
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
