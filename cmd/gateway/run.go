package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"parley/channels/cli"
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
			g, err := open(cmd.Context(), *configPath)
			if err != nil {
				return err
			}
			defer g.close()
			if err := g.store.MarkDaemon(); err != nil {
				return err
			}
			if err := g.addHTTP(cmd.Context()); err != nil {
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
			} else if err := g.tellHowToSignIn(cmd.Context()); err != nil {
				return err
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

// tellHowToSignIn prints a link that signs in where the output is a terminal. A
// log may be read by others, so it gets none.
func (g *gateway) tellHowToSignIn(ctx context.Context) error {
	if g.http == nil || !g.http.NeedsToken() {
		return nil
	}
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		g.log.Info("browsers sign in by a link, which a command prints", "command", "gateway token link")
		return nil
	}
	lines, err := g.signInLines(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stderr, strings.Join(lines, "\n"))
	return err
}
