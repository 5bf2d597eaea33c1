package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"

	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// A draining node hands its role to another node, and gets no more work. It takes both back when the drain is undone, also
// after it was declared dead meanwhile. Another node drains it.
func TestDrainingNodeHandsOver(t *testing.T) {
	t.Parallel()
	url := database(t)
	drains, stays := join(t, config(t, url, "drains")), join(t, config(t, url, "stays"))
	holds := make(chan string)
	hold := func(n *Node) {
		err := n.Hold(t.Context(), "poll", func(ctx context.Context, _ *Role) error {
			select {
			case holds <- n.Name():
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		})
		if t.Context().Err() == nil {
			t.Error("a node has given up waiting for the role:", err)
		}
	}
	go hold(drains)
	if first := waittest.Receive(t, holds, "a node holds the role"); first != "drains" {
		t.Fatal(first)
	}
	kept := make(chan context.Context)
	go drains.WhileKeeping(t.Context(), func(ctx context.Context) {
		kept <- ctx
		<-ctx.Done()
	})
	keeping := waittest.Receive(t, kept, "the node keeps what it has")
	go hold(stays)
	if err := stays.Drain(t.Context(), drains.ID(), true); err != nil {
		t.Fatal(err)
	}
	if second := waittest.Receive(t, holds, "the other node holds the role"); second != "stays" {
		t.Fatal(second)
	}
	waittest.Receive(t, keeping.Done(), "the node gives up what it has")
	eventually(t, "both know", func() bool {
		return drains.IsDraining() && slices.ContainsFunc(stays.Live(), func(m Member) bool { return m.Draining })
	})
	for _, n := range []*Node{drains, stays} {
		if place, ok := n.Place("telegram:chat:1"); !ok || place.Name != "stays" {
			t.Errorf("%s places on %q", n.Name(), place.Name)
		}
	}
	before := drains.ID()
	postgrestest.Exec(t, url, "UPDATE nodes SET dead_at = 1 WHERE name = 'drains'")
	eventually(t, "it has joined anew, and still drains", func() bool {
		is, _ := drains.HandsOver()
		return is && drains.ID() != before
	})
	if err := stays.Drain(t.Context(), before, false); !errors.Is(err, ErrNoNode) {
		t.Error("a dead node is told to drain:", err)
	}
	if err := drains.Drain(t.Context(), drains.ID(), false); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, kept, "the node keeps again what it has")
	if err := stays.Drain(t.Context(), stays.ID(), true); err != nil {
		t.Fatal(err)
	}
	if third := waittest.Receive(t, holds, "the role is back"); third != "drains" {
		t.Error(third)
	}
}

// A node that drains does not hand over its work if no other node serves its bots.
func TestLastNodeDoesNotHandOver(t *testing.T) {
	t.Parallel()
	url := database(t)
	n := join(t, config(t, url, "alone"))
	command := config(t, url, "a command")
	command.Command = "drain"
	if err := join(t, command).Drain(t.Context(), n.ID(), true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it knows", n.IsDraining)
	n.ReportLoad(func() Load { return Load{Serves: []string{"telegram:7"}} })
	other := join(t, config(t, url, "without telegram"))
	eventually(t, "they know each other", func() bool { return len(n.Live()) == 2 })
	if is, _ := n.HandsOver(); is {
		t.Error("the last node hands its work over")
	}
	other.ReportLoad(func() Load { return Load{Serves: []string{"telegram:7", "web:"}} })
	eventually(t, "it has somebody to hand over to", func() bool { is, _ := n.HandsOver(); return is })
	role, err := n.Take(t.Context(), "poll")
	if role == nil || err != nil {
		t.Fatal("a role is not taken", err)
	}
	role.Release(t.Context())
}

// Sessions are sent to the node with the most free slots, as many as it has. A node that does not serve the same bots gets
// none.
func TestFreestNode(t *testing.T) {
	t.Parallel()
	url := database(t)
	n := join(t, config(t, url, "n"))
	n.ReportLoad(func() Load { return Load{Serves: []string{"web:", "telegram:7"}} })
	all := []string{"telegram:7", "web:"}
	loads := map[string]Load{"a": {all, 3, 4}, "b": {all, 1, 4}, "full": {all, 4, 4}, "without telegram": {[]string{"web:"}, 0, 4}}
	for name, load := range loads {
		join(t, config(t, url, name)).ReportLoad(func() Load { return load })
	}
	eventually(t, "the loads are known", func() bool {
		known := 0
		for _, m := range n.Live() {
			if of := loads[m.Name]; m.Slots > 0 && m.Runs == of.Runs && m.Slots == of.Slots && slices.Equal(m.Serves, of.Serves) {
				known++
			}
		}
		return known == len(loads)
	})
	n.stop() // renews no more, so that no new loads are read
	n.stopped.Wait()
	given := map[string]int{}
	for {
		m, ok := n.FreestNode()
		if !ok {
			break
		}
		given[m.Name]++
	}
	if given["b"] != 3 || given["a"] != 1 || len(given) != 2 {
		t.Error(given)
	}
}

// A program that is too old for the schema can't join; one that is new enough can.
func TestProgramThatIsTooOldDoesNotJoin(t *testing.T) {
	t.Parallel()
	url := database(t)
	c := config(t, url, "n")
	c.Schema = number(t, url, "SELECT oldest FROM compatibility")
	join(t, c)
	postgrestest.Exec(t, url, "UPDATE compatibility SET oldest = oldest + 2")
	if _, err := Join(t.Context(), c); err == nil {
		t.Error("an older program has joined")
	}
	c.Schema += 2
	join(t, c)
}
