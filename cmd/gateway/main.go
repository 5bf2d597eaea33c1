// Gateway runs Parley: one assistant in many chats, each with a session of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"parley/channels/cli"
	"parley/config"
	"parley/gateway"
	"parley/plaintext"
)

// gcPercent lets the small heap grow to three times its live size before a
// collection: half the work of the default, for a few MiB. GOGC overrides it.
const gcPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		report(err)
		os.Exit(1)
	}
}

// report prints an error without control characters, since it may quote strangers,
// servers or files.
func report(err error) {
	var problems config.Problems
	switch {
	case errors.As(err, &problems): // a line each, with the file's name before it
		fmt.Fprintln(os.Stderr, plaintext.ForTerminal(problems.Error()))
	case !errors.Is(err, gateway.ErrReported) && !errors.Is(err, cli.ErrFailed):
		fmt.Fprintln(os.Stderr, "gateway:", plaintext.ForTerminal(err.Error()))
	}
}

func run(ctx context.Context, args []string) error {
	root := newRoot()
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// newRoot returns the command line of the gateway.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "gateway",
		Short: "Connect chat platforms to a language model",
		Long: "Parley connects Discord, Telegram, a terminal and a browser to a language model behind any\n" +
			"OpenAI-compatible API. Each chat is a session of its own. All are kept in one database.",
		SilenceUsage:     true,
		SilenceErrors:    true,
		PersistentPreRun: noteSubcommand,
	}
	var configPath string
	root.PersistentFlags().StringVarP(&configPath, "config", "c", "", "configuration `FILE` (default \"config.toml\" where there is one)")
	root.AddCommand(
		runCommand(&configPath), chatCommand(&configPath), askCommand(&configPath),
		pairCommand(&configPath), botsCommand(&configPath), discordCommand(&configPath), tokenCommand(&configPath),
		sessionsCommand(&configPath), historyCommand(&configPath), usageCommand(&configPath), importCommand(&configPath),
		backupCommand(&configPath), restoreCommand(&configPath), verifyCommand(&configPath), repairCommand(&configPath), migrateCommand(&configPath), cleanupCommand(&configPath),
		mcpCommand(&configPath), nodesCommand(&configPath), drainCommand(&configPath), healthCommand(&configPath), retryCommand(&configPath), versionCommand(), documentCommand(), guardCommand(),
	)
	explainArguments(root)
	return root
}

// explainArguments has a command, and those below it, say how it is called when it is given too few or
// too many arguments. Commands that only hold others name the one that is unknown.
func explainArguments(command *cobra.Command) {
	for _, below := range command.Commands() {
		explainArguments(below)
	}
	check := command.Args
	if check == nil || command.HasSubCommands() {
		return
	}
	command.Args = func(c *cobra.Command, args []string) error {
		if check(c, args) == nil {
			return nil
		}
		found := fmt.Sprintf("%d arguments", len(args))
		if len(args) == 1 {
			found = "1 argument"
		}
		return fmt.Errorf("found %s, allowed: %s", found, c.UseLine())
	}
}
