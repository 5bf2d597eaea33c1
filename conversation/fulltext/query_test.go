package fulltext

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseQuery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, want string }{
		{"", "[]"},
		{`"" -- *`, "[]"},
		{"to migrate", "[[[migrate]] [[to]]]"}, // the longest first
		{"Word word WORD", "[[[word]]]"},
		{`"Quick brown" fox`, "[[[quick brown]] [[fox]]]"},
		{`an "open quote`, "[[[open quote]] [[an]]]"},
		{"parseConfig", "[[[parseconfig] [parse config]]]"},
		{"parse_config", "[[[parse config]]]"},
		{"数据库", "[[[数 据 库]]]"},
		{"a AND b OR c*", "[[[and]] [[or]] [[a]] [[b]] [[c]]]"},
	} {
		var phrases [][]Phrase
		for _, term := range ParseQuery(c.query) {
			phrases = append(phrases, term.Phrases)
		}
		if got := fmt.Sprint(phrases); got != c.want {
			t.Errorf("%q: %s, want %s", c.query, got, c.want)
		}
	}
}

func TestParseQueryIsLimited(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "word%d ", i)
	}
	terms := ParseQuery(b.String())
	if len(terms) != maxTerms || len(SplitTerms(terms)) != maxTerms {
		t.Errorf("%d terms, %d when split", len(terms), len(SplitTerms(terms)))
	}
	if terms := ParseQuery(`"` + b.String() + `"`); len(terms) != 1 || len(terms[0].Phrases[0]) != 32 {
		t.Errorf("%d terms, the phrase has %d words", len(terms), len(terms[0].Phrases[0]))
	}
}

func TestSplitTerms(t *testing.T) {
	t.Parallel()
	var got []string
	for _, term := range SplitTerms(ParseQuery("数据库 parseConfig the_config 字")) { // a compound of 10 bytes stands before three characters of 9
		got = append(got, strings.Join(term.Phrases[0], "+"))
	}
	if want := "parseconfig parse config 数+据 据+库 the 字"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Only the last word of a query may be unfinished, and only if it is long enough.
func TestMayBePrefix(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{"migration conf": "conf", "migration con": "", `see "migration"`: "", "conf migration": "migration"} {
		got := ""
		for _, term := range ParseQuery(query) {
			if term.MayBePrefix() {
				got = term.Phrases[0][0]
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
