package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cluster"
	"parley/plaintext"
)

// errNoNodes is returned where the database is a file.
var errNoNodes = errors.New("the database is a file, which has no nodes; several gateways share one PostgreSQL database, see `database` in the configuration")

func nodesCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "List the processes that share the PostgreSQL database",
		Long: "Lists the processes that have the PostgreSQL database open and are not dead, this command excepted.\n" +
			"STATE is serving, draining (see `gateway drain`), or the command that the process runs. HEARTBEAT is\n" +
			"how long ago each has renewed its membership: one that has not for 5 seconds is taken for dead.\n" +
			"SESSIONS are those that it works now, RUNS those of them that call the model and how many may do so at\n" +
			"a time, ROLES what it alone does.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withNode(cmd.Context(), *configPath, func(node *cluster.Node) error {
				members, err := node.Members(cmd.Context())
				if err != nil {
					return err
				}
				return printNodes(cmd.OutOrStdout(), members, node.ID())
			})
		},
	}
}

// withNode opens the database, which must have nodes.
func withNode(ctx context.Context, configPath string, do func(node *cluster.Node) error) error {
	store, err := openStore(ctx, configPath)
	if err != nil {
		return err
	}
	defer store.Close()
	if store.Node() == nil {
		return errNoNodes
	}
	return do(store.Node())
}

func printNodes(out io.Writer, members []cluster.Member, self int64) error {
	members = slices.DeleteFunc(members, func(m cluster.Member) bool { return m.ID == self })
	if len(members) == 0 {
		fmt.Fprintln(out, "No other process has the database open; `gateway run` starts a node.")
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NODE\tNAME\tADDRESS\tVERSION\tSTATE\tHEARTBEAT\tSESSIONS\tRUNS\tROLES")
	for _, m := range members {
		runs := "-"
		if m.Slots > 0 {
			runs = fmt.Sprintf("%d of %d", m.Runs, m.Slots)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", m.ID, printable(m.Name), cmp.Or(printable(m.URL), "-"), cmp.Or(printable(m.Version), "-"),
			printable(m.State()), m.Heartbeat.Round(100*time.Millisecond), m.Sessions, runs,
			cmp.Or(plaintext.OneLine(strings.Join(m.Roles, " ")), "-"))
	}
	return table.Flush()
}
