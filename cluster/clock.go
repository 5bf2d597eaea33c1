package cluster

import "time"

// The clock of a machine may be wrong by an hour, and the times that one node stores are read by all. So all nodes
// go by the clock of the database, of which each renewal of the membership tells.

// At returns what the database's clock showed when this process's own showed a time, as exactly as a renewal takes. A
// process without a cluster, which is a nil Node, has only its own clock.
func (n *Node) At(own time.Time) time.Time {
	if n == nil {
		return own
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return own.Add(n.ahead)
}

// setClock learns what the database's clock showed between two times of this process. The difference that is known stays
// unless those times show that it is wrong, so that the clock does not jump with each renewal.
func (n *Node) setClock(database, sent, received time.Time) {
	least, most := database.Sub(received), database.Add(time.Millisecond).Sub(sent) // the database tells whole milliseconds
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ahead < least || n.ahead > most {
		n.ahead = (least + most) / 2
	}
}
