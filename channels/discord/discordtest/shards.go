package discordtest

import (
	"context"
	"slices"
)

// Shards returns the numbers of the shards that have a connected session, in order. A number is there twice when two
// sessions have the shard.
func (s *Server) Shards() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connectedShards()
}

func (s *Server) connectedShards() (numbers []int) {
	for _, x := range s.sessions {
		if x.conn != nil {
			numbers = append(numbers, x.shard)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// WaitShards waits until every shard of n has a connected session.
func (s *Server) WaitShards(ctx context.Context, n int) error {
	return s.wait(ctx, "all shards", func() bool { return len(slices.Compact(s.connectedShards())) == n })
}
