package search

import (
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"parley/conversation/storetest"
)

// A search needs no second connection: it works while all others are in use.
func TestSearchNeedsOneConnectionOnly(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, "cli:ann", storetest.User("The ferry to Naxos leaves at eight"), storetest.Assistant("Then we meet at the harbour"))
	storetest.Chores(t, s)
	var others []*sql.Conn
	for range max(2, runtime.GOMAXPROCS(0)) {
		conn, err := s.DB().Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, conn)
	}
	for n := range 20 {
		hits, err := New(s).Find(t.Context(), Query{Key: "cli:ann", Words: "when does the ferry to Naxos leave", Limit: 5})
		if err != nil || len(hits) == 0 {
			t.Fatalf("search %d: %d hits, %v", n, len(hits), err)
		}
	}
	for _, conn := range others {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A database error with any word of a query is the error of the search, on whichever connection it occurs.
func TestSearchReturnsTheErrorOfAnyWord(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	conn, err := s.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l := New(s).newLookup(conn, Query{Key: "cli:ann"})
	for n := range 50 {
		want := fmt.Errorf("word %d", n)
		err := l.each(t.Context(), 50, func(_ *lookup, i int) error {
			if i == n {
				return want
			}
			return nil
		})
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
}
