package main

import (
	"strings"
	"testing"

	"parley/cluster"
)

// Somebody who asks for the nodes while nothing runs gets a sentence, not the head of an empty table.
func TestNodesSayWhenThereAreNone(t *testing.T) {
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
