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
		Short: "Chat in this terminal, or answer the lines of standard input",
		Long: "Opens a chat in this terminal. With standard input from a pipe it answers line by line,\n" +
			"and ends with status 0 at the end of the input. When nobody reads its output any more it ends\n" +
			"by SIGPIPE, as filters do, and an answer under way waits for the next chat.",
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
	command.Flags().BoolVar(&resume, "resume", false, "pick an earlier conversation to go on with")
	return command
}
