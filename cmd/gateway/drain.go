package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/cluster"
	"parley/internal/clock"
)

func drainCommand(configPath *string) *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:   "drain [NODE]",
		Short: "Hand the sessions of a node over to the others",
		Long: "Tells a gateway that shares a PostgreSQL database to take on no more sessions and to hand those that\n" +
			"it has, its roles and its shards over to the other gateways, and waits until it has done so. The runs\n" +
			"that it has begun are finished. It goes on serving HTTP, and its /readyz says 503, so that a load\n" +
			"balancer leaves it out. Then it can be stopped without anybody noticing.\n\n" +
			"NODE is a number or a name as in `gateway nodes`; without it, the gateway on this machine is meant. The\n" +
			"command works from any machine. If it is interrupted, the gateway goes on draining. A gateway that is\n" +
			"started anew does not drain. While no other gateway serves the same bots and channels, it keeps what it has.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withNode(cmd.Context(), *configPath, func(node *cluster.Node) error {
				return drain(cmd.Context(), cmd.OutOrStdout(), node, strings.Join(args, ""), undo)
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "let the node take on sessions again")
	return cmd
}

// drain drains the node that is called so, "" for the one on this machine.
func drain(ctx context.Context, out io.Writer, node *cluster.Node, called string, undo bool) error {
	members, err := node.Members(ctx)
	if err != nil {
		return err
	}
	m, err := findNode(members, called, node.Name())
	if err != nil {
		return err
	}
	if err := node.Drain(ctx, m.ID, !undo); err != nil {
		return err
	}
	if undo {
		_, err := fmt.Fprintf(out, "node %d (%s) takes on sessions again\n", m.ID, printable(m.Name))
		return err
	}
	return awaitDrained(ctx, out, node, m)
}

// findNode returns the gateway that is called so, by its number or its name.
func findNode(members []cluster.Member, called, here string) (cluster.Member, error) {
	members = slices.DeleteFunc(members, func(m cluster.Member) bool { return m.Command != cluster.Serves })
	if called == "" {
		called = here
	}
	number, _ := strconv.ParseInt(called, 10, 64) // 0 for a name
	if i := slices.IndexFunc(members, func(m cluster.Member) bool { return m.ID == number }); i >= 0 {
		return members[i], nil
	}
	named := slices.DeleteFunc(members, func(m cluster.Member) bool { return m.Name != called })
	switch len(named) {
	case 0:
		return cluster.Member{}, fmt.Errorf("no gateway called %s serves this database; `gateway nodes` lists those that do", printable(called))
	case 1:
		return named[0], nil
	}
	var numbers []string
	for _, m := range named {
		numbers = append(numbers, fmt.Sprint(m.ID))
	}
	return cluster.Member{}, fmt.Errorf("several gateways are called %s: name one by its number, %s", printable(called), strings.Join(numbers, " or "))
}

const (
	drainLook = 500 * time.Millisecond // how often awaitDrained looks

	// knowsAfter is how many renewals of its membership a node needs to know what was stored before them: it reads
	// with one, and takes in what it has read before the next one.
	knowsAfter = 2
)

// awaitDrained waits until a node has handed over all that it had, and prints what is left each time that this changes.
func awaitDrained(ctx context.Context, out io.Writer, node *cluster.Node, m cluster.Member) error {
	name := fmt.Sprintf("node %d (%s)", m.ID, printable(m.Name))
	for said, renewals := "", -1; ; { // what m is before the first look may be older than the drain
		members, err := node.Members(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(members, func(now cluster.Member) bool { return now.ID == m.ID })
		if i < 0 {
			return fmt.Errorf("%s has stopped, or joined anew under another number", name)
		}
		if renewals < 0 || members[i].HasRenewedSince(m) {
			renewals++
		}
		m = members[i]
		if !m.Draining {
			return errors.New("somebody has undone it: " + name + " takes on sessions again")
		}
		knows := renewals >= knowsAfter
		if knows && m.Sessions == 0 && len(m.Roles) == 0 {
			_, err := fmt.Fprintln(out, name, "has handed everything over and can be stopped")
			return err
		}
		left := fmt.Sprintf("%s still works %s, with %s", name, counted(int64(m.Sessions), "session", "sessions"), counted(int64(m.Runs), "run", "runs"))
		if !knows {
			left = name + " has not learned of it yet"
		}
		if len(m.Roles) > 0 {
			left += ", and has the roles " + printable(strings.Join(m.Roles, " "))
		}
		if !slices.ContainsFunc(members, func(other cluster.Member) bool { return other.ID != m.ID && other.MayTakeFrom(m) }) {
			left += "; it keeps them, since no other gateway serves the same bots and channels"
		}
		if left != said {
			said = left
			if _, err := fmt.Fprintln(out, left); err != nil {
				return err
			}
		}
		if err := clock.Sleep(ctx, drainLook); err != nil {
			return err
		}
	}
}
