package postgres

import (
	"database/sql/driver"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// A statement that SQLite accepts means the same on PostgreSQL: its placeholders are numbered as
// SQLite numbers them, and what only looks like one is left alone.
func TestStatementsKeepTheirMeaning(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		`SELECT ?, ?`:                                             `SELECT $1, $2`,
		`VALUES (?2, ?1, ?2, ?)`:                                  `VALUES ($1, $2, $1, $3)`,
		`x = :a OR y = :b OR z = :a`:                              `x = $1 OR y = $2 OR z = $1`,
		`a = :a AND b = ? AND c = ?`:                              `a = $1 AND b = $2 AND c = $3`,
		`SELECT CAST(? AS TEXT), ?::text, a::b`:                   `SELECT CAST($1 AS TEXT), $2::text, a::b`,
		`SELECT 'what?', 'it''s :a ?', "co?l""?", ?`:              `SELECT 'what?', 'it''s :a ?', "co?l""?", $1`,
		"SELECT 1 -- who? :me\n, ? /* and? /* ? */ :why */, ?":    "SELECT 1 -- who? :me\n, $1 /* and? /* ? */ :why */, $2",
		`SELECT $$ ? $$, $f$ :a $$ ? $f$, ?`:                      `SELECT $$ ? $$, $f$ :a $$ ? $f$, $1`,
		`SELECT E'\'?', e'a''\'?', nice'\', ?, '?'`:               `SELECT E'\'?', e'a''\'?', nice'\', $1, '?'`,
		`SELECT $2, $1, $2`:                                       `SELECT $1, $2, $1`,
		`SELECT a$1, list[1:2], '12:30', "a:b", x LIKE '%\' || ?`: `SELECT a$1, list[1:2], '12:30', "a:b", x LIKE '%\' || $1`,
		`SELECT 'ends in the middle ?`:                            `SELECT 'ends in the middle ?`,
		`SELECT 'été?', "ü", ?`:                                   `SELECT 'été?', "ü", $1`,
	} {
		if got := rewrite(query).text; got != want {
			t.Errorf("%s\n got  %s\n want %s", query, got, want)
		}
	}
}

// Where the engines need different SQL, PostgreSQL gets its own, which SQLite reads as a comment.
func TestEitherKeepsTheWordsForPostgreSQL(t *testing.T) {
	t.Parallel()
	query := `SELECT ` + Either(`group_concat(name, ?1)`, `string_agg(name, ?1)`) + ` FROM t` + Either(` INDEXED BY t_name`, ``) + ` WHERE id = ?2`
	if got, want := rewrite(query).text, `SELECT string_agg(name, $1) FROM t WHERE id = $2`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	commented := regexp.MustCompile(`/\*.*?\*/`).ReplaceAllString(query, "")
	if want := `SELECT group_concat(name, ?1) FROM t INDEXED BY t_name WHERE id = ?2`; commented != want {
		t.Errorf("SQLite reads %s\nwant         %s", commented, want)
	}
	for _, broken := range []string{ownBegin, ownBegin + "x", ownBegin + "x" + ownEnd + "y"} {
		if got := rewrite(broken).text; got != broken {
			t.Errorf("%q became %q", broken, got)
		}
	}
}

// Arguments reach their placeholders by number and by name. Those that are not used are ignored.
func TestArgumentsReachTheirPlaceholders(t *testing.T) {
	t.Parallel()
	given := []driver.NamedValue{{Ordinal: 1, Value: "one"}, {Ordinal: 2, Value: "two"}, {Ordinal: 3, Name: "who", Value: "me"}}
	for query, want := range map[string][]any{
		`?, ?`:         {"one", "two"},
		`?2, ?1, ?2`:   {"two", "one"},
		`:who, ?1`:     {"me", "one"},
		`? :who :who`:  {"one", "me"},
		`nothing here`: {},
	} {
		if got, err := rewrite(query).arguments(given); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", query, got, err, want)
		}
	}
	for _, query := range []string{`?4`, `:nobody`, `?3`} {
		if got, err := rewrite(query).arguments(given); err == nil {
			t.Errorf("%s: %v, want an error", query, got)
		}
	}
}

// No text makes the rewriting fail or change what it does not understand.
func FuzzRewrite(f *testing.F) {
	f.Add("SELECT ?1, :a -- ?\n$t$ ? $t$ 'x' E'\\'' \"")
	f.Fuzz(func(t *testing.T, query string) {
		made := rewrite(query)
		if len(made.params) == 0 && made.text != query && !strings.Contains(query, ownBegin) {
			t.Errorf("%q became %q without a placeholder", query, made.text)
		}
	})
}
