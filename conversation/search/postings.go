package search

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

const (
	// maxPostings is the number of messages from which on a word is so common that it is not looked for beside rarer ones.
	maxPostings = 5000

	// enoughCommon is how many matches of common words are enough to rank.
	enoughCommon = 2000
)

// matches is what the index has found for the terms of a query.
type matches struct {
	lists     [][]fulltext.Posting // by term
	common    []bool               // by term: the list is not complete, since very many messages have the term
	hidden    []int64              // internal messages
	documents int64                // messages that were searched
}

// rank ranks the messages that have all terms, or any. Common terms count for nothing.
func (m *matches) rank(all bool) *fulltext.Ranking {
	var lists [][]fulltext.Posting
	for i, list := range m.lists {
		if !m.common[i] {
			lists = append(lists, list)
		}
	}
	return fulltext.Rank(lists, m.hidden, m.documents, all)
}

// match searches everything for the terms. If each of them is common, it searches only the newest messages
// alone.
func (l *lookup) match(ctx context.Context, terms []fulltext.Term) (m matches, err error) {
	in, err := l.all(ctx)
	if err != nil {
		return m, err
	}
	if m, err = l.matchIn(ctx, terms, in); err != nil {
		return m, err
	}
	if !slices.Contains(m.common, false) {
		if m, err = l.matchNewest(ctx, terms, in); err != nil {
			return m, err
		}
	}
	m.hidden, err = l.internal(ctx, in)
	return m, err
}

// internal returns the internal messages of a session, which only a search over all sessions finds.
func (l *lookup) internal(ctx context.Context, in span) ([]int64, error) {
	if l.everywhere() {
		return nil, nil
	}
	match := wordindex.InternalToken
	if in.mixed {
		match = `"` + l.session + `" AND ` + match
	}
	return l.ask(ctx, question{"messages_fts", in, match}, -1)
}

// all returns all that is searched.
func (l *lookup) all(ctx context.Context) (s span, err error) {
	if !l.everywhere() {
		return joined(l.spans), nil
	}
	s.last = math.MaxInt64
	err = l.conn.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) FROM messages`).Scan(&s.messages)
	return s, err
}

// matchNewest searches the newest messages for the terms, until it has enough.
func (l *lookup) matchNewest(ctx context.Context, terms []fulltext.Term, all span) (m matches, err error) {
	if l.everywhere() {
		all.newestFirst = true
		m, err = l.matchIn(ctx, terms, all)
		clear(m.common)
		return m, err
	}
	m = matches{lists: make([][]fulltext.Posting, len(terms)), common: make([]bool, len(terms))}
	for _, in := range l.spans {
		part, err := l.matchIn(ctx, terms, in)
		if err != nil {
			return m, err
		}
		found := 0
		for i, list := range part.lists {
			m.lists[i] = append(list, m.lists[i]...) // what is older has lower rows
			found += len(m.lists[i])
		}
		if m.documents += in.messages; found >= enoughCommon {
			break
		}
	}
	return m, nil
}

// matchIn searches a span for the terms.
func (l *lookup) matchIn(ctx context.Context, terms []fulltext.Term, in span) (m matches, err error) {
	m = matches{lists: make([][]fulltext.Posting, len(terms)), common: make([]bool, len(terms)), documents: in.messages}
	for i, t := range terms {
		if m.lists[i], err = l.postings(ctx, t, in); err != nil {
			return m, err
		}
		m.common[i] = len(m.lists[i]) >= maxPostings
	}
	return m, nil
}

// postings returns messages of a span that have a term, sorted by row: all, or at least maxPostings.
func (l *lookup) postings(ctx context.Context, t fulltext.Term, in span) (list []fulltext.Posting, err error) {
	if t.RankTokens(0) != nil {
		if list, err = l.rankedPostings(ctx, t, in); err != nil || l.ranked {
			return list, err
		}
	}
	found, err := l.inSpan(ctx, in, l.stepsIn(in, t))
	return fulltext.Merge(list, postingsOf(found, 1)), err
}

func postingsOf(rowIDs []int64, impact float64) []fulltext.Posting {
	list := make([]fulltext.Posting, len(rowIDs))
	for i, rowID := range rowIDs {
		list[i] = fulltext.Posting{ID: rowID, Impact: impact}
	}
	return list
}

// rankedPostings returns the postings of a term that the ranks know.
func (l *lookup) rankedPostings(ctx context.Context, t fulltext.Term, in span) (list []fulltext.Posting, err error) {
	for level := range fulltext.Levels {
		match := matchTokens(t.RankTokens(level))
		if l.query.TalkOnly {
			match = "said : " + match
		}
		if in.mixed {
			match = `"` + l.session + `" AND (` + match + `)`
		}
		found, err := l.ask(ctx, question{"messages_ranks", in, match}, maxPostings)
		if err != nil {
			return nil, err
		}
		list = fulltext.Merge(list, postingsOf(found, fulltext.Impact(level)))
		if len(list) >= maxPostings && !in.newestFirst {
			break
		}
	}
	return list, nil
}

// stepsIn returns the expressions that a message in a span must match, all of them. In one conversation there are
// several: asked for a phrase at once, FTS5 begins at the oldest message of all sessions, and may find no match there for
// long.
func (l *lookup) stepsIn(in span, t fulltext.Term) (steps []string) {
	switch {
	case in.mixed:
		steps = []string{`"` + l.session + `" AND (` + l.columns(matchTerm(t)) + `)`}
	case l.everywhere():
		steps = []string{l.columns(matchTerm(t))}
	default:
		for _, step := range matchSteps(t) {
			steps = append(steps, l.columns(step))
		}
	}
	if l.query.TalkOnly {
		steps[0] = "(" + steps[0] + ") NOT " + wordindex.ToolToken
	}
	return steps
}

// inSpan returns messages of a span that match all steps, the oldest first: all, or at least maxPostings.
func (l *lookup) inSpan(ctx context.Context, in span, steps []string) (found []int64, err error) {
	limit := maxPostings
	if len(steps) > 1 {
		limit = -1
	}
	for i, step := range steps {
		list, err := l.ask(ctx, question{"messages_fts", in, step}, limit)
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

// question asks a table of the index for the messages of a span that match an expression.
type question struct {
	table string
	span  span
	match string
}

// ask returns the answer of the index. A word is asked for again where no message has all words, and as part of phrases.
func (l *lookup) ask(ctx context.Context, q question, limit int) (list []int64, err error) {
	list, known := l.answers[q]
	if !known {
		list, err = l.rowIDs(ctx, q, limit)
		l.answers[q] = list
	}
	return list, err
}

// columns returns an expression for the columns that are searched.
func (l *lookup) columns(match string) string {
	if l.query.TalkOnly {
		return "{words parts} : (" + match + ")"
	}
	return match
}

// rowIDs asks the index, and returns the oldest message first. All rows come as one text, which costs a
// fraction of a row each.
func (l *lookup) rowIDs(ctx context.Context, q question, limit int) (list []int64, err error) {
	order := ""
	if q.span.newestFirst {
		order = "ORDER BY rowid DESC"
	}
	rows, err := db.Short(ctx, l.conn, `SELECT group_concat(rowid, ' ') FROM (
		SELECT rowid FROM `+q.table+` WHERE `+q.table+` MATCH ? AND rowid BETWEEN ? AND ? `+order+` LIMIT ?)`,
		q.match, q.span.first, q.span.last, limit)
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
	slices.Sort(list)
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
