package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/storetest"
)

// A search finds the same messages in the same order, whichever way it reads the index, with and without cached frequent
// words.
func TestSearchFindsTheSameHoweverTheIndexIsAsked(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	random := rand.New(rand.NewPCG(5, 6))
	zipf := rand.NewZipf(random, 1.1, 3, 300)
	said := func(words int) string {
		var list []string
		for range words {
			list = append(list, fmt.Sprint("word", zipf.Uint64()))
		}
		return strings.Join(list, " ")
	}
	sessions := []conversation.Key{"cli:ann", "cli:ben"}
	for n := range 12 { // conversations, by turns in each session
		key := sessions[n%2]
		for range 25 {
			storetest.Tell(t, s, key, storetest.User(said(1+random.IntN(12))), storetest.Assistant(said(1+random.IntN(12))))
		}
		storetest.Exec(t, s, `UPDATE conversations SET active = 0`)
	}
	storetest.Chores(t, s)
	conn, err := s.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var remembered []*frequentWords
	ways := []limits{{common: 60, manyOwn: math.MaxInt64}, {common: 60, atOnce: 1}, {common: 60, atOnce: 8}, {common: 60, atOnce: 80}, {common: 60, atOnce: 100_000}}
	for range ways {
		remembered = append(remembered, newFrequentWords().(*frequentWords))
	}
	for range 60 {
		query := Query{Key: sessions[random.IntN(2)], Words: said(1 + random.IntN(6)), Limit: 15}
		if random.IntN(4) == 0 {
			query.Key = ""
		}
		var want []int64
		for i, way := range slices.Concat(ways, ways) {
			l := New(s).newLookup(conn, query)
			l.limits, l.frequent = way, remembered[i%len(ways)]
			hits, err := l.run(t.Context(), fulltext.ParseQuery(query.Words))
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, h := range hits {
				got = append(got, h.Seq)
			}
			if i == 0 {
				want = got
			} else if !slices.Equal(got, want) {
				t.Fatalf("%q in %q with %+v, time %d: %v, want %v", query.Words, query.Key, way, 1+i/len(ways), got, want)
			}
		}
	}
	if n := len(remembered[1].known); n < 10 {
		t.Errorf("only %d frequent words are cached", n)
	}
}
