package search

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
)

// On PostgreSQL, each statement costs a plan and a round trip, and a query of seven words would need twenty-one: one for each word
// and level of impact. Where the server reads the rows of a span, it would read them once for each. So one statement looks up all
// words of a query.

// prefetchRanks queries PostgreSQL for the ranks of all terms that are not known to be common, so that rankedPostings finds them
// among the cached results. It does nothing on SQLite.
func (l *lookup) prefetchRanks(ctx context.Context, terms []fulltext.Term, in span) error {
	if !l.postgres {
		return nil
	}
	var left []fulltext.Term
	for _, t := range terms {
		if c, remembered := l.frequentTerm(t, in); t.RankTokens(0) != nil && !(remembered && l.frequent.has(c)) {
			left = append(left, t)
		}
	}
	if l.readsRows(in) { // read each row once, for all levels
		var all []indexQuery
		for level := range fulltext.Levels {
			all = append(all, l.uncached(left, level, in)...)
		}
		return l.fetch(ctx, in, all)
	}
	for level := range fulltext.Levels {
		if err := l.fetch(ctx, in, l.uncached(left, level, in)); err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(t fulltext.Term) bool { // rankedPostings reads no further level
			return l.hasMost(l.rankQuery(t, level, in)) && !in.newestFirst
		})
	}
	return nil
}

// uncached returns the queries for the ranks of terms with a level of impact, without those whose results are cached.
func (l *lookup) uncached(terms []fulltext.Term, level int, in span) (list []indexQuery) {
	for _, t := range terms {
		q := l.rankQuery(t, level, in)
		if _, known := l.results.get(q); !known && !slices.Contains(list, q) {
			list = append(list, q)
		}
	}
	return list
}

// hasMost reports whether the cached result of a query has as many rows as are read for a term.
func (l *lookup) hasMost(q indexQuery) bool {
	list, _ := l.results.get(q)
	return len(list) >= l.most()
}

// rankQuery returns the query that rankedPostings makes for a term with a level of impact.
func (l *lookup) rankQuery(t fulltext.Term, level int, in span) indexQuery {
	e := l.rankedAt(t, level)
	e.session = l.sessionIn(in)
	return indexQuery{ranks, in, e.tsquery(ranks)}
}

// fetch queries the index in one statement and caches the results. All queries are for the same span of the table of ranks.
func (l *lookup) fetch(ctx context.Context, in span, list []indexQuery) error {
	if len(list) == 0 {
		return nil
	}
	matches := make([]string, len(list))
	for i, q := range list {
		matches[i] = q.match.query
	}
	encoded, err := json.Marshal(matches)
	if err != nil {
		return err
	}
	within, args, err := l.scope.condition(`id >> 24`)
	if err != nil {
		return err
	}
	args = append(args, sql.Named("matches", string(encoded)), sql.Named("first", in.first), sql.Named("last", in.last), sql.Named("limit", l.most()))
	statement := ofEachWord(in, within)
	if l.readsRows(in) {
		statement = ofEachRow
		args = append(args, sql.Named("conversations", db.IDs(l.conversationsIn(in))))
	}
	rows, err := db.Short(ctx, l.conn, `
		WITH asked AS MATERIALIZED (SELECT key AS n, CAST(value AS tsquery) AS match FROM `+db.EachText(":matches")+` AS each) `+statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for _, q := range list {
		l.results.put(q, nil)
	}
	for rows.Next() {
		var n int
		var text sql.NullString
		if err := rows.Scan(&n, &text); err != nil {
			return err
		}
		found, err := numbersIn(text.String)
		if err != nil {
			return err
		}
		slices.Sort(found)
		l.results.put(list[n-1], found[:min(len(found), l.most())])
	}
	return rows.Err()
}

// ofEachWord returns the statement that looks each query up in the index.
func ofEachWord(in span, within string) string {
	order := ` ORDER BY id`
	switch {
	case in.newestFirst:
		order += ` DESC`
	case in.unordered:
		order = ``
	}
	return `SELECT n, (SELECT string_agg(CAST(id AS text), ' ') FROM (
		SELECT id FROM (SELECT id FROM message_ranks WHERE ranks @@ asked.match OFFSET 0) AS m
		WHERE id BETWEEN :first AND :last AND ` + within + order + ` LIMIT :limit) AS found) FROM asked`
}

// ofEachRow is the statement that reads each row of the span once, and finds out which of the queries it matches.
var ofEachRow = `SELECT n, string_agg(CAST(id AS text), ' ') FROM ` + rowsOf(ranks) + ` AS own
	CROSS JOIN LATERAL (SELECT n FROM asked WHERE own.ranks @@ asked.match OFFSET 0) AS found GROUP BY n`
