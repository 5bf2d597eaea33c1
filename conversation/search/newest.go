package search

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// newest returns the rows in the index of up to n messages that have all terms, the newest first. Some of them may not be
// for this search.
func (l *lookup) newest(ctx context.Context, terms []fulltext.Term, n int) ([]int64, error) {
	if l.everywhere() {
		return l.rowIDs(ctx, `SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? ORDER BY rowid DESC LIMIT ?`,
			l.allowed(l.columns(matchAll(terms))), n)
	}
	var list []int64
	spans := l.spans
	phrases := slices.ContainsFunc(terms, fulltext.Term.IsPhrase)
	if phrases {
		spans = joinRest(spans)
	}
	atOnce := false // the index is asked for all terms
	for _, span := range spans {
		found, err := l.inSpan(ctx, span, l.stepsIn(span, terms, atOnce))
		if err != nil {
			return nil, err
		}
		for _, rowID := range slices.Backward(found) {
			list = append(list, rowID)
		}
		if len(list) >= n {
			return list[:n], nil
		}
		atOnce = len(list) > 0 || phrases
	}
	return list, nil
}

// stepsIn returns the expressions that a message in a span must match, all of them. In one conversation there are
// several: asked for all terms at once, FTS5 begins at the oldest message of all sessions, and may find no match there
// for long. Where a newer span had a match, the terms are not that rare, and are asked for at once.
func (l *lookup) stepsIn(span span, terms []fulltext.Term, atOnce bool) (steps []string) {
	switch {
	case span.mixed:
		steps = []string{`"` + l.session + `" AND (` + l.columns(matchAll(terms)) + `)`}
	case atOnce:
		steps = []string{l.columns(matchAll(terms))}
	default:
		for _, step := range matchSteps(terms) {
			steps = append(steps, l.columns(step))
		}
	}
	steps[0] = l.allowed(steps[0])
	return steps
}

// inSpan returns the messages of a span that match all steps, the oldest first.
func (l *lookup) inSpan(ctx context.Context, span span, steps []string) (found []int64, err error) {
	for i, step := range steps {
		list, err := l.ask(ctx, question{span, step})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			list = common(found, list)
		}
		if found = list; len(found) == 0 {
			return nil, nil
		}
	}
	return found, nil
}

// question asks for the messages of a span that match an expression.
type question struct {
	span  span
	match string
}

// ask returns the answer of the index, the oldest message first.
func (l *lookup) ask(ctx context.Context, q question) ([]int64, error) {
	if list, known := l.answers[q]; known {
		return list, nil
	}
	list, err := l.rowIDs(ctx, `SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? AND rowid BETWEEN ? AND ?`,
		q.match, q.span.first, q.span.last)
	if err != nil {
		return nil, err
	}
	slices.Sort(list)
	l.answers[q] = list
	return list, nil
}

// allowed returns an expression without the messages that the search leaves out.
func (l *lookup) allowed(match string) string {
	var without []string
	if !l.everywhere() {
		without = append(without, wordindex.InternalToken)
	}
	if l.query.TalkOnly {
		without = append(without, wordindex.ToolToken)
	}
	if len(without) == 0 {
		return match
	}
	return "(" + match + ") NOT (" + strings.Join(without, " OR ") + ")"
}

// columns returns an expression for the columns that are searched.
func (l *lookup) columns(match string) string {
	if l.query.TalkOnly {
		return "{words parts} : (" + match + ")"
	}
	return match
}

// rowIDs asks the index. All rows come as one text, which costs a fraction of a row each.
func (l *lookup) rowIDs(ctx context.Context, query string, args ...any) (list []int64, err error) {
	rows, err := db.Short(ctx, l.conn, `SELECT group_concat(rowid, ' ') FROM (`+query+`)`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		for field := range strings.FieldsSeq(text.String) {
			rowID, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return nil, err
			}
			list = append(list, rowID)
		}
	}
	return list, rows.Err()
}

// common returns what two sorted lists have in common.
func common(a, b []int64) (both []int64) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			both, a, b = append(both, a[0]), a[1:], b[1:]
		}
	}
	return both
}
