package fulltext

import (
	"slices"
	"testing"
)

func TestRank(t *testing.T) {
	t.Parallel()
	const high, middle, low = 2.0, 1.0, 0.5
	for _, c := range []struct {
		what      string
		lists     [][]Posting
		hidden    []int64
		documents int64
		all       bool
		want      []int64
	}{
		{"a higher impact first", [][]Posting{{{1, low}, {5, high}, {9, middle}}}, nil, 100, false, []int64{5, 9, 1}},
		{"a rare term before a frequent one", [][]Posting{{{1, high}, {3, high}, {5, high}, {7, high}}, {{9, middle}}}, nil, 10, false, []int64{9, 7, 5, 3, 1}},
		{"two terms before one", [][]Posting{{{1, middle}, {5, middle}}, {{5, middle}, {9, middle}}}, nil, 100, false, []int64{5, 9, 1}},
		{"the higher ID of equals", [][]Posting{{{1, middle}, {5, middle}, {9, middle}}}, nil, 100, false, []int64{9, 5, 1}},
		{"a neighbor with another term counts", [][]Posting{{{1, middle}, {9, middle}}, {{2, middle}}}, nil, 100, false, []int64{2, 1, 9}},
		{"a neighbor with the same term does not", [][]Posting{{{1, middle}, {2, middle}, {9, middle}}}, nil, 100, false, []int64{9, 2, 1}},
		{"the nearer one counts for more", [][]Posting{{{1, middle}, {11, middle}}, {{3, middle}, {12, middle}}}, nil, 100, false, []int64{12, 11, 3, 1}},
		{"one that is far away counts for nothing", [][]Posting{{{1, middle}, {11, middle}}, {{4, middle}, {13, middle}}}, nil, 100, false, []int64{13, 11, 4, 1}},
		{"only what has all terms", [][]Posting{{{1, middle}, {5, middle}}, {{5, middle}, {9, middle}}}, nil, 100, true, []int64{5}},
		{"nothing has an unknown term", [][]Posting{{{1, middle}}, nil}, nil, 100, true, nil},
		{"hidden ones do not exist", [][]Posting{{{1, middle}, {2, high}, {12, middle}, {20, middle}}, {{3, middle}, {10, middle}}}, []int64{2}, 100, false, []int64{3, 1, 10, 12, 20}},
		{"nothing", nil, nil, 0, false, nil},
	} {
		if got := Rank(listsOf(c.all, c.lists...), c.hidden, c.documents).Next(100); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

func listsOf(needed bool, postings ...[]Posting) (lists []List) {
	for _, list := range postings {
		lists = append(lists, List{list, needed})
	}
	return lists
}

func TestRankFindsWhatHasTheNeededTerms(t *testing.T) {
	t.Parallel()
	lists := []List{{[]Posting{{1, 1}, {5, 1}}, true}, {[]Posting{{5, 1}, {9, 2}}, false}}
	if got := Rank(lists, nil, 100).Next(10); !slices.Equal(got, []int64{5, 1}) {
		t.Errorf("%d", got)
	}
}

// When there are too many postings, the most frequent terms are ignored, and rare ones are not.
func TestRankHasABound(t *testing.T) {
	t.Parallel()
	frequent := make([]Posting, maxRanked)
	for i := range frequent {
		frequent[i] = Posting{int64(2 * i), 2}
	}
	rare := []Posting{{10, 1}, {20, 1}}
	if got := Rank(listsOf(true, frequent, rare), nil, 100_000).Next(10); !slices.Equal(got, []int64{20, 10}) {
		t.Errorf("with a rare term: %d", got)
	}
	if got := Rank(listsOf(true, frequent), nil, 100_000).Next(10); len(got) != 10 {
		t.Errorf("alone: %d", got)
	}
}

func TestMergeKeepsTheHigherImpact(t *testing.T) {
	t.Parallel()
	got := Merge([]Posting{{1, 2}, {3, 1}}, []Posting{{1, 1}, {2, 1}, {3, 2}, {4, 1}})
	if want := []Posting{{1, 2}, {2, 1}, {3, 2}, {4, 1}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
