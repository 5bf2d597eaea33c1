package search

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
)

// PostgreSQL looks up the words of a query together: a statement costs it a plan and a round trip, a question of seven words has
// twenty-one of them, and where it reads the rows of a span, it would read them once for each.

// askTogether asks PostgreSQL for the ranks of all terms that are not known to be common, so that rankedPostings finds them
// among the answers.
func (l *lookup) askTogether(ctx context.Context, terms []fulltext.Term, in span) error {
	if !l.postgres {
		return nil
	}
	var left []fulltext.Term
	for _, t := range terms {
		if c, remembered := l.countedTerm(t, in); t.RankTokens(0) != nil && !(remembered && l.frequent.has(c)) {
			left = append(left, t)
		}
	}
	if l.readsRows(in) { // each row once, for all levels
		var all []question
		for level := range fulltext.Levels {
			all = append(all, l.questions(left, level, in)...)
		}
		return l.answer(ctx, in, all)
	}
	for level := range fulltext.Levels {
		if err := l.answer(ctx, in, l.questions(left, level, in)); err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(t fulltext.Term) bool { // rankedPostings has enough of it
			return l.hasMost(l.question(t, level, in)) && !in.newestFirst
		})
	}
	return nil
}

func (l *lookup) questions(terms []fulltext.Term, level int, in span) (list []question) {
	for _, t := range terms {
		q := l.question(t, level, in)
		if _, known := l.answers.get(q); !known && !slices.Contains(list, q) {
			list = append(list, q)
		}
	}
	return list
}

// hasMost reports whether the answer to a question has all the messages that are read of a word.
func (l *lookup) hasMost(q question) bool {
	list, _ := l.answers.get(q)
	return len(list) >= l.most()
}

// question returns what rankedPostings asks for a term.
func (l *lookup) question(t fulltext.Term, level int, in span) question {
	e := l.rankedAt(t, level)
	e.session = l.sessionIn(in)
	return question{ranks, in, e.tsquery(ranks)}
}

// answer has the server answer questions about a span in one statement.
func (l *lookup) answer(ctx context.Context, in span, list []question) error {
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
		l.answers.put(q, nil)
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
		l.answers.put(list[n-1], found[:min(len(found), l.most())])
	}
	return rows.Err()
}

// ofEachWord looks each of the words up in the index.
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

// ofEachRow reads each row of the span, and finds out which of the words it has.
var ofEachRow = `SELECT n, string_agg(CAST(id AS text), ' ') FROM ` + rowsOf(ranks) + ` AS own
	CROSS JOIN LATERAL (SELECT n FROM asked WHERE own.ranks @@ asked.match OFFSET 0) AS found GROUP BY n`
