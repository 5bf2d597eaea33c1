package main

import (
	"errors"

	"github.com/spf13/cobra"

	"parley/channels/cli"
	"parley/gateway"
)

func chatCommand(configPath *string) *cobra.Command {
	var session string
	var resume bool
	command := &cobra.Command{
		Use:   "chat",
		Short: "Chat in this terminal, or answer standard input line by line",
		Long: "Opens a chat in this terminal. If standard input is a pipe, it answers line by line, and exits\n" +
			"with status 0 at the end of the input. If its output is closed, it ends by SIGPIPE, as filters\n" +
			"do; the next chat then answers the last message.",
		Example: "  gateway chat --session work\n  printf 'hello\\n/history\\n' | gateway chat",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := gateway.New(cmd.Context(), gateway.Options{
				ConfigPath: *configPath, Version: version(), DocumentReader: documentReader(), Terminal: &gateway.Terminal{Session: session, Pick: resume},
			})
			if errors.Is(err, cli.ErrNothingPicked) {
				return nil
			}
			if err != nil {
				return err
			}
			defer g.Close()
			return g.Run(cmd.Context())
		},
	}
	command.Flags().StringVar(&session, "session", "", "`NAME` of the session (default \"default\")")
	command.Flags().BoolVar(&resume, "resume", false, "choose an earlier conversation to continue")
	return command
}
