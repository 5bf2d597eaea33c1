package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"parley/gateway"
)

// maxQuestion is the most that is read of standard input for one question.
const maxQuestion = 8 << 20

func askCommand(configPath *string) *cobra.Command {
	var session string
	command := &cobra.Command{
		Use:   "ask [WORDS...]",
		Short: "Ask one question and print the answer",
		Long: "Sends one message, the words and what is piped into it, and prints the answer. It exits with\n" +
			"status 1, and the reason on standard error, if there is no answer. Questions of one session are\n" +
			"a conversation; `gateway ask /new` begins another.",
		Example: "  gateway ask what is a monad\n  git diff | gateway ask \"write a commit message for this\"",
		RunE: func(cmd *cobra.Command, words []string) error {
			message, err := question(words, os.Stdin)
			if err != nil {
				return err
			}
			return chat(cmd.Context(), *configPath, gateway.Terminal{Session: session, Message: message})
		},
	}
	command.Flags().StringVar(&session, "session", "ask", "`NAME` of the session")
	return command
}

// question returns the words, and below them what is piped in.
func question(words []string, in *os.File) (string, error) {
	parts := []string{strings.Join(words, " ")}
	if !term.IsTerminal(int(in.Fd())) && isPiped(in) {
		piped, err := io.ReadAll(io.LimitReader(in, maxQuestion+1))
		switch {
		case err != nil:
			return "", fmt.Errorf("reading standard input: %w", err)
		case len(piped) > maxQuestion:
			return "", fmt.Errorf("standard input has more than %d MiB; send a part of it, or a file with /attach in `gateway chat`", maxQuestion>>20)
		case !utf8.Valid(piped) || bytes.IndexByte(piped, 0) >= 0:
			return "", errors.New("standard input is no text in UTF-8; send it as a file with /attach in `gateway chat`")
		}
		parts = append(parts, string(piped))
	}
	message := strings.Trim(strings.Join(parts, "\n\n"), "\n")
	if strings.TrimSpace(message) == "" {
		return "", errors.New(`there is nothing to ask: write gateway ask "WORDS", or pipe a text into it`)
	}
	return message, nil
}

// isPiped reports whether the input holds something, as a pipe or a file does. Services
// and cron jobs start programs with /dev/null or with nothing at all.
func isPiped(in *os.File) bool {
	info, err := in.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}
