package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"parley/channels/cli"
	"parley/httpserver"
)

func runCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Serve every channel that has a token, browsers, and this terminal",
		Long: "Serves every channel that has a token, and HTTP on this machine (http://" + httpserver.DefaultListen + "/).\n" +
			"With a terminal on standard input it also opens a chat there, and ends when that is left;\n" +
			"without one it serves until SIGTERM or SIGINT.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := open(cmd.Context(), *configPath)
			if err != nil {
				return err
			}
			defer g.close()
			if err := g.store.MarkDaemon(); err != nil {
				return err
			}
			if err := g.addHTTP(); err != nil {
				return err
			}
			g.addWeb()
			g.addAPI()
			if err := g.addTelegram(); err != nil {
				return err
			}
			if err := g.addDiscord(); err != nil {
				return err
			}
			if cli.IsInteractive(os.Stdin, os.Stdout) {
				if err := g.addTerminal(cmd.Context(), terminal{session: g.cfg.CLI.Session}); err != nil {
					return err
				}
			}
			g.addConsole()
			if len(g.channels) == 0 && g.http == nil {
				return errors.New("nothing to serve: no channel has a token (token in the section [telegram] or TELEGRAM_TOKEN, " +
					"token in the section [discord] or DISCORD_TOKEN), there is no HTTP server (listen in the section [http]), " +
					"and standard input is no terminal; `gateway chat` reads lines from a pipe")
			}
			return g.serve(cmd.Context())
		},
	}
}
