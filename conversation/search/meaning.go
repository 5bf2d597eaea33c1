package search

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/vectors"
)

// Vectors find messages that use other words than the query. The two rankings are fused by reciprocal rank:
// Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods"
// (SIGIR 2009). The constant k of the paper is 60. It is smaller here, so that the order of the first hits counts for more.
// Vectors weigh less than words, since an embedding model may be weak or not know a language: a message that only vectors
// find comes after the first hits by words, and a message that both find moves up. With these values, results for the
// generated sets do not get worse, although the embedding model of `make eval` does not know most of their languages;
// docs/performance.md has the figures.
const (
	fusionK     = 10
	nearWeight  = 0.4
	fusedWords  = 200 // how many messages of the ranking by words are fused; the others follow behind them
	fusedNear   = 200 // how many messages of the ranking by vectors are fused
	nearestOnly = 10  // how many messages vectors find if none has a word of the query: some message is always the nearest
)

// In a search over several sessions, vectors are compared only up to this number of messages and of conversations. In one
// session they always are.
const (
	maxCompared      = 100_000
	maxConversations = 300
)

// embedder returns the vector of a text.
type embedder func(context.Context, string) ([]float32, error)

// requestVector requests the vector of the query, unless the query has quotes or there is too much to compare.
func (l *lookup) requestVector(ctx context.Context, terms []fulltext.Term) error {
	if l.embed == nil || slices.ContainsFunc(terms, isQuoted) {
		return nil
	}
	if l.everywhere() {
		all, err := l.all(ctx)
		if err != nil || all.messages > maxCompared {
			return err
		}
		if l.sizes, err = l.scope.sizes(ctx, l.conn, maxConversations+1); err != nil || len(l.sizes) > maxConversations {
			return err
		}
	}
	l.vector = vectorOf(ctx, l.embed, l.query.Words)
	return nil
}

// vectorOf requests the vector of a text in the background. The channel receives the vector, or nil after an error.
func vectorOf(ctx context.Context, embed embedder, text string) <-chan []float32 {
	made := make(chan []float32, 1)
	go func() {
		vector, err := embed(ctx, text)
		if err != nil { // the embedder logs what the operator should know
			vector = nil
		}
		made <- vector
		close(made)
	}()
	return made
}

// near returns the up to n messages whose vectors are nearest to that of the query, the nearest first. It waits for the
// vector of the query.
func (l *lookup) near(ctx context.Context, n int) ([]int64, error) {
	if l.nearRead || l.vector == nil {
		return l.nearest[:min(n, len(l.nearest))], nil
	}
	l.nearRead = true
	vector := <-l.vector
	if vector == nil {
		return nil, nil
	}
	var list []vectors.Conversation
	for _, s := range l.sizes {
		list = append(list, vectors.Conversation{ID: s.conversation, Messages: s.messages})
	}
	var err error
	l.nearest, err = l.vectors.Nearest(ctx, l.conn, list, vector, fusedNear)
	if conversation.IsDamaged(err) {
		l.nearest, err = nil, nil
	}
	return l.nearest[:min(n, len(l.nearest))], err
}

// nearestPage returns the page of what vectors find, for a query of which no message has a word.
func (l *lookup) nearestPage(ctx context.Context) ([]int64, error) {
	near, err := l.near(ctx, nearestOnly)
	if err != nil || len(near) == 0 {
		return nil, err
	}
	page, _, err := l.pageOf(ctx, &fused{head: near})
	return page, err
}

// fuse returns a ranking by words, fused with the messages that are nearest by their vectors. found reports whether the
// ranking by words has a message that this search may return.
func (l *lookup) fuse(ctx context.Context, words *fulltext.Ranking) (r ranking, found bool, err error) {
	var head []int64
	for !found {
		rowIDs := words.Next(fusedWords)
		if len(rowIDs) == 0 {
			return nil, false, nil
		}
		ids, err := l.allowed(ctx, rowIDs)
		if err != nil {
			return nil, false, err
		}
		head, found = append(head, rowIDs...), len(ids) > 0
	}
	near, err := l.near(ctx, fusedNear)
	if err != nil {
		return nil, false, err
	}
	return &fused{head: fuseRanks(head, near), words: words}, true, nil
}

// fuseRanks merges two rankings, each the best first. Of messages with equal scores, the newer one comes first.
func fuseRanks(words, near []int64) []int64 {
	score := map[int64]float64{}
	for rank, id := range words {
		score[id] += 1 / float64(fusionK+1+rank)
	}
	for rank, id := range near {
		score[id] += nearWeight / float64(fusionK+1+rank)
	}
	return slices.SortedFunc(maps.Keys(score), func(a, b int64) int {
		return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(b, a))
	})
}

// fused is a ranking that consists of a fused head and the rest of the ranking by words.
type fused struct {
	head  []int64           // what Next has still to return of the head
	words *fulltext.Ranking // nil = nothing follows the head
	given map[int64]bool    // the messages of the head; nil until the first call of Next
}

// Next implements ranking.
func (f *fused) Next(n int) (ids []int64) {
	if f.given == nil {
		f.given = map[int64]bool{}
		for _, id := range f.head {
			f.given[id] = true
		}
	}
	if len(f.head) > 0 {
		n = min(n, len(f.head))
		ids, f.head = f.head[:n], f.head[n:]
		return ids
	}
	for f.words != nil && len(ids) == 0 {
		rest := f.words.Next(n)
		if len(rest) == 0 {
			return nil
		}
		ids = slices.DeleteFunc(rest, func(id int64) bool { return f.given[id] })
	}
	return ids
}
