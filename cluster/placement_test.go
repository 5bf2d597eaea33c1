package cluster

import (
	"fmt"
	"testing"
)

// Sessions are placed evenly, and only those of a leaving node move.
func TestPlacementMovesOnlySessionsOfALeavingNode(t *testing.T) {
	t.Parallel()
	const keys = 30_000
	three := &Node{live: []Member{{ID: 7, Command: Serves}, {ID: 8, Command: Serves}, {ID: 900, Command: Serves}, {ID: 5, Command: "export"}}}
	two := &Node{live: []Member{{ID: 900, Command: Serves}, {ID: 7, Command: Serves}, {ID: 8, Command: Serves, Draining: true}}}
	count := map[int64]int{}
	for i := range keys {
		key := fmt.Sprintf("telegram:chat:%d", i)
		before, _ := three.Place(key)
		after, _ := two.Place(key)
		count[before.ID]++
		if before.ID != 8 && after.ID != before.ID {
			t.Fatalf("%s moved from %d to %d", key, before.ID, after.ID)
		}
		if after.ID == 8 {
			t.Fatal("a session is placed on a draining node")
		}
	}
	for _, id := range []int64{7, 8, 900} {
		if count[id] < keys/3*9/10 || count[id] > keys/3*11/10 {
			t.Errorf("node %d has %d of %d sessions", id, count[id], keys)
		}
	}
	if _, ok := (&Node{}).Place("web:x"); ok {
		t.Error("a place without nodes")
	}
}
