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

// What is said in other words than those of a query is found by vectors. The two rankings are fused by reciprocal rank:
// Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods"
// (SIGIR 2009). Its constant is smaller here, so that the order of the first hits counts for more, and vectors weigh half:
// an embedding model may be weak, or not know a language, and words then still rank as they do alone.
const (
	fusionK     = 20
	nearWeight  = 0.5
	fusedWords  = 200 // messages of the ranking by words that are fused; the others follow
	fusedNear   = 200 // messages by vectors
	nearestOnly = 10  // messages that are found where none has a word of the query: some vector is always the nearest
)

// isForMeaning reports whether a query is about one session, and asks for no exact words.
func (q Query) isForMeaning(terms []fulltext.Term) bool {
	return (q.Key != "" || q.Conversation != "") && !slices.ContainsFunc(terms, isQuoted)
}

// vectorOf requests the vector of a text, while the words are searched. It returns nil without an embedder.
func vectorOf(ctx context.Context, embedder conversation.Embedder, text string) <-chan []float32 {
	if embedder == nil {
		return nil
	}
	made := make(chan []float32, 1)
	go func() {
		vector, err := embedder.EmbedQuery(ctx, text)
		if err != nil { // which the embedder reports
			vector = nil
		}
		made <- vector
		close(made)
	}()
	return made
}

// near returns the messages that come nearest to the query by their vectors, at most n.
func (l *lookup) near(ctx context.Context, n int) ([]int64, error) {
	if l.nearRead || l.meaning == nil {
		return l.nearest[:min(n, len(l.nearest))], nil
	}
	l.nearRead = true
	vector := <-l.meaning
	if vector == nil {
		return nil, nil
	}
	var list []vectors.Conversation
	for _, s := range l.sizes {
		list = append(list, vectors.Conversation{ID: s.conversation, Messages: s.messages})
	}
	var err error
	l.nearest, err = vectors.Nearest(ctx, l.conn, list, vector, fusedNear)
	if conversation.IsDamaged(err) {
		l.nearest, err = nil, nil
	}
	return l.nearest[:min(n, len(l.nearest))], err
}

// nearestPage returns the page of what comes near where no message has a word of the query.
func (l *lookup) nearestPage(ctx context.Context) ([]int64, error) {
	near, err := l.near(ctx, nearestOnly)
	if err != nil || len(near) == 0 {
		return nil, err
	}
	page, _, err := l.pageOf(ctx, &fused{head: near})
	return page, err
}

// fuse returns a ranking by words together with what comes near. found reports whether any message has the words.
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

// fuseRanks merges two rankings. Of equals, the newer one comes first.
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

// fused is a fused ranking, behind which the rest of the ranking by words follows.
type fused struct {
	head  []int64
	words *fulltext.Ranking // nil: nothing follows
	given map[int64]bool
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
