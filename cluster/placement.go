package cluster

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"
)

// Place returns the node that a piece of work of this key belongs on: the same one on every node, as
// long as the same ones are alive, and evenly spread. When a node joins or leaves, only
// what moves to it or from it changes its place. ok is false when no node serves.
func (n *Node) Place(key string) (m Member, ok bool) {
	live := n.takers()
	if len(live) == 0 {
		return Member{}, false
	}
	return slices.MaxFunc(live, func(a, b Member) int {
		return cmp.Compare(weight(key, a.ID), weight(key, b.ID))
	}), true
}

// FreestNode returns the other node with the most free run slots, and counts one of them as taken until the
// next renewal. ok is false when no other node has a free one.
func (n *Node) FreestNode() (m Member, ok bool) {
	takers := n.takers()
	n.mu.Lock()
	defer n.mu.Unlock()
	most := 0
	for _, other := range takers {
		free := other.Slots - other.Runs - n.given[other.ID]
		if other.ID != n.id && free > most {
			m, most = other, free
		}
	}
	if most > 0 {
		n.given[m.ID]++
	}
	return m, most > 0
}

// weight is how much a key prefers a node: rendezvous hashing.
func weight(key string, node int64) uint64 {
	h := fnv.New64a()
	io.WriteString(h, key)
	return mix(h.Sum64() ^ mix(uint64(node)))
}

// mix spreads each bit of x over all bits. It is the finalizer of MurmurHash3.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
