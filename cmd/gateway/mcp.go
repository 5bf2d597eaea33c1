package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/config"
	"parley/plaintext"
	"parley/tools/mcp"
)

func mcpCommand(configPath *string) *cobra.Command {
	command := &cobra.Command{
		Use:   "mcp",
		Short: "Try the servers of tools that the configuration names, or be one",
		Long: "The sections [mcp.NAME] name servers whose tools the model may call. list, probe and call start the\n" +
			"servers for themselves, beside those of a gateway that runs, and end them again. serve is the other\n" +
			"direction: it gives programs that speak MCP the archive and the sessions of a running gateway.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(mcpListCommand(configPath), mcpProbeCommand(configPath), mcpCallCommand(configPath), mcpServeCommand(configPath))
	return command
}

// withServers runs f with the configured servers, and ends them.
func withServers(configPath string, f func(*mcp.Servers) error) error {
	cfg, err := config.Load(configPath, os.Getenv)
	if err != nil {
		return err
	}
	servers := mcp.New(cfg.MCP, mcp.Options{Version: version(), Guard: serverGuard()})
	defer servers.Close()
	return f(servers)
}

func mcpListCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all servers and their tools",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServers(*configPath, func(servers *mcp.Servers) error {
				return printServers(cmd.Context(), cmd.OutOrStdout(), servers)
			})
		},
	}
}

func printServers(ctx context.Context, out io.Writer, servers *mcp.Servers) error {
	list := servers.Status()
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "No server is configured. A section [mcp.NAME] adds one; docs/tools.md says how.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "SERVER\tSTATE\tTOOLS")
	for _, s := range list {
		found, err := servers.Probe(ctx, s.Name)
		if err != nil {
			fmt.Fprintf(table, "%s\tfailed\t%s\n", s.Name, plaintext.OneLine(err.Error()))
			continue
		}
		var names []string
		for _, tool := range found.Tools {
			if tool.Offered != "" {
				names = append(names, tool.Tool)
			}
		}
		fmt.Fprintf(table, "%s\tready\t%s\n", s.Name, plaintext.OneLine(cmp.Or(strings.Join(names, ", "), "none")))
	}
	return table.Flush()
}

func mcpProbeCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "probe SERVER",
		Short: "Start a server and show what it says of itself and its tools",
		Long: "Shows the server's name and version, how long it took to answer, and its tools. \"again\" says\n" +
			"whether a call that was under way when the gateway was killed is made again.",
		Example: "  gateway mcp probe files",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServers(*configPath, func(servers *mcp.Servers) error {
				found, err := servers.Probe(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return printFound(cmd.OutOrStdout(), found)
			})
		},
	}
}

func printFound(out io.Writer, f mcp.Found) error {
	line := func(text string) string { return plaintext.OneLine(text) }
	fmt.Fprintf(out, "%s %s, protocol %s, answered within %s\n\n", line(cmp.Or(f.Title, f.Name, "no name")), line(f.Version), line(f.Protocol), f.Took.Round(time.Millisecond))
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "TOOL\tFOR THE MODEL\tCHANGES\tAGAIN\t")
	for _, t := range f.Tools {
		changes, again := "yes", "no"
		if t.ReadOnly {
			changes = "nothing"
		}
		if t.Repeatable {
			again = "yes"
		}
		if t.Key {
			again = "with a key"
		}
		about, _, _ := strings.Cut(strings.TrimSpace(t.About), "\n")
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", line(t.Tool), cmp.Or(t.Offered, "not allowed"), changes, again, plaintext.ShortLine(line(about), 60))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, reason := range f.LeftOut {
		fmt.Fprintln(out, "Left out:", line(reason))
	}
	return nil
}

func mcpCallCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:     "call SERVER TOOL [ARGUMENTS]",
		Short:   "Call a tool and print its result",
		Long:    "Calls a tool as the model would. The arguments are a JSON object.",
		Example: `  gateway mcp call files read_text_file '{"path": "notes.md"}'`,
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments := "{}"
			if len(args) == 3 {
				arguments = args[2]
			}
			return withServers(*configPath, func(servers *mcp.Servers) error {
				text, err := servers.Call(cmd.Context(), args[0], args[1], arguments)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), plaintext.ForTerminal(text))
				return err
			})
		},
	}
}

// guardServers is the name of guardCommand.
const guardServers = "guard-servers"

// guardCommand returns the command by which a gateway has the servers ended that it leaves
// behind when it is killed. It is not for people.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardServers,
		Short:  "End the process groups named on standard input when it closes",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run:    func(*cobra.Command, []string) { mcp.Serve(os.Stdin) },
	}
}

// serverGuard returns the command line of guardCommand.
func serverGuard() []string { return ownCommand(guardServers) }
