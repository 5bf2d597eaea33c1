package agentloop

import (
	"context"
	"slices"
	"time"

	"parley/cluster"
)

// slotPatience is how long a session waits for a run slot of its node before it looks for a node that has one;
// from then on it looks every second.
const (
	slotPatience  = 2 * time.Second
	slotLookEvery = time.Second
)

// load returns what this node answers and how much it has to do, for the other nodes.
func (r *Router) load() cluster.Load {
	load := cluster.Load{Runs: len(r.slots), Slots: cap(r.slots)}
	for _, account := range r.served {
		load.Serves = append(load.Serves, account.Channel+":"+account.ID)
	}
	slices.Sort(load.Serves) // so that it is the same each time
	return load
}

// takeSlot takes one of MaxConcurrentRuns slots, and waits for one if need be. A /stop or the end of intake ends the
// wait, and so does another node that takes the session, see sendTo; ok is false then. waited reports
// whether no slot was free at once.
func (l *loop) takeSlot(intake context.Context) (waited, ok bool) {
	select {
	case l.router.slots <- struct{}{}:
		return false, true
	default:
	}
	node := l.deps.Store.Node()
	look := time.NewTimer(slotPatience)
	defer look.Stop()
	for {
		handsOver, change := node.HandsOver()
		if handsOver {
			return true, false
		}
		select {
		case l.router.slots <- struct{}{}:
			return true, true
		case <-l.stop:
			return true, false
		case <-intake.Done():
			return true, false
		case <-change:
		case <-look.C:
			if !l.unfinished.found { // a run that has begun goes on where it is
				l.sendTo = freest(node)
			}
			if l.sendTo != 0 {
				return true, false
			}
			look.Reset(slotLookEvery)
		}
	}
}

// freest returns the node that has the most free run slots, 0 for none.
func freest(node *cluster.Node) int64 {
	if node == nil {
		return 0
	}
	m, _ := node.FreestNode()
	return m.ID
}
