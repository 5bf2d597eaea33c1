package main

import (
	"slices"
	"strings"
	"testing"

	"parley/cluster"

	"github.com/spf13/cobra"
)

// Somebody who asks for the nodes while nothing runs gets a sentence, not the head of an empty table.
func TestNodesSaysWhenNoOtherProcessRuns(t *testing.T) {
	t.Parallel()
	const self = 7
	for members, want := range map[int]string{0: "No other process", 1: "web-1"} {
		var out strings.Builder
		listed := []cluster.Member{{ID: self, Name: "this command"}, {ID: 8, Name: "web-1", Command: cluster.Serves}}[:1+members]
		if err := printNodes(&out, listed, self); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "this command") {
			t.Errorf("with %d nodes it says %q", members, out.String())
		}
	}
}

// `gateway nodes` says which command each process runs that only reads or writes.
func TestNodesAreNamedByTheirCommand(t *testing.T) {
	t.Parallel()
	root := newRoot()
	var called []string
	for _, args := range [][]string{{"nodes"}, {"pair", "list"}} {
		command, _, err := root.Find(args)
		if err != nil {
			t.Fatal(err)
		}
		command.RunE = func(cmd *cobra.Command, _ []string) error {
			called = append(called, subcommand(cmd.Context()))
			return nil
		}
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"nodes", "pair list"}; !slices.Equal(called, want) {
		t.Errorf("the commands call themselves %q, want %q", called, want)
	}
}
