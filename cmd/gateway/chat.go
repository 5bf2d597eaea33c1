package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"parley/channels/cli"
	"parley/gateway"
)

func chatCommand(configPath *string) *cobra.Command {
	var terminal gateway.Terminal
	command := &cobra.Command{
		Use:   "chat",
		Short: "Chat in this terminal, or answer what is piped in",
		Long: "Opens a chat in this terminal. What is piped into it is one message, or with --lines a message a\n" +
			"line. It then exits with status 0, or with status 1 and the reason on standard error if there is\n" +
			"no answer. If its output is closed, it ends by SIGPIPE, as filters do; the next chat then answers\n" +
			"the last message.",
		Example: "  gateway chat --session work\n  gateway chat < question.txt\n  printf 'hello\\n/history\\n' | gateway chat --lines",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return chat(cmd.Context(), *configPath, terminal)
		},
	}
	command.Flags().StringVar(&terminal.Session, "session", "", "`NAME` of the session (default: session in [cli], which is \"default\")")
	command.Flags().BoolVar(&terminal.Pick, "resume", false, "choose an earlier conversation to continue")
	command.Flags().BoolVar(&terminal.Lines, "lines", false, "answer piped input line by line")
	return command
}

// chat opens a terminal and serves nothing else.
func chat(ctx context.Context, configPath string, terminal gateway.Terminal) error {
	started := reportEarlyEnd(os.Stderr)
	g, err := gateway.New(ctx, gateway.Options{
		ConfigPath: configPath, Version: version(), DocumentReader: documentReader(), ServerGuard: serverGuard(), Terminal: &terminal,
	})
	started()
	if errors.Is(err, cli.ErrNothingPicked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer g.Close()
	return g.Run(ctx)
}

// reportEarlyEnd prints that nothing was sent if a signal ends the process before started is called.
func reportEarlyEnd(to io.Writer) (started func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			fmt.Fprintf(to, "gateway: ended by a signal (%s) while it started; nothing was sent\n", s)
			signal.Reset(s) // so that the process ends as the caller of the signal expects
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
