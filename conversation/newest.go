package conversation

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"parley/conversation/fulltext"
)

// newest gives the rowids of up to n messages in the index that have all terms,
// the newest first. Some of them may not be for this search.
func (s *search) newest(ctx context.Context, terms []fulltext.Term, n int) ([]int64, error) {
	if s.everywhere() {
		return s.rowids(ctx, `SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? ORDER BY rowid DESC LIMIT ?`,
			s.allowed(s.talk(matchAll(terms))), n)
	}
	var list []int64
	spans := s.spans
	phrases := slices.ContainsFunc(terms, fulltext.Term.IsPhrase)
	if phrases {
		spans = joined(spans)
	}
	atOnce := false // the index is asked for all terms
	for _, span := range spans {
		found, err := s.inSpan(ctx, span, s.stepsIn(span, terms, atOnce))
		if err != nil {
			return nil, err
		}
		for _, rowid := range slices.Backward(found) {
			list = append(list, rowid)
		}
		if len(list) >= n {
			return list[:n], nil
		}
		atOnce = len(list) > 0 || phrases
	}
	return list, nil
}

// stepsIn gives the matches that a message in a span must have all of. In one
// conversation there are several, since FTS5, asked for all at once, begins at
// the oldest message of all sessions, and may find none there for long; what was
// found in a newer span is not so rare.
func (s *search) stepsIn(span span, terms []fulltext.Term, atOnce bool) (steps []string) {
	switch {
	case span.mixed:
		steps = []string{`"` + s.place + `" AND (` + s.talk(matchAll(terms)) + `)`}
	case atOnce:
		steps = []string{s.talk(matchAll(terms))}
	default:
		for _, step := range matchSteps(terms) {
			steps = append(steps, s.talk(step))
		}
	}
	steps[0] = s.allowed(steps[0])
	return steps
}

// inSpan gives the messages of a span that match all steps, the oldest first.
func (s *search) inSpan(ctx context.Context, span span, steps []string) (found []int64, err error) {
	for i, step := range steps {
		list, err := s.step(ctx, span, step)
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

// step gives the messages of a span that match, the oldest first. They are kept:
// the phrases of a query share words.
func (s *search) step(ctx context.Context, span span, match string) ([]int64, error) {
	key := spanMatch{span, match}
	if list, known := s.known[key]; known {
		return list, nil
	}
	list, err := s.rowids(ctx, `SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? AND rowid BETWEEN ? AND ?`,
		match, span.first, span.last)
	if err != nil {
		return nil, err
	}
	slices.Sort(list)
	s.known[key] = list
	return list, nil
}

// spanMatch is what the index was asked.
type spanMatch struct {
	span  span
	match string
}

// allowed is a match without the messages that the search leaves out.
func (s *search) allowed(match string) string {
	var without []string
	if !s.everywhere() {
		without = append(without, internalToken)
	}
	if s.query.TalkOnly {
		without = append(without, toolToken)
	}
	if len(without) == 0 {
		return match
	}
	return "(" + match + ") NOT (" + strings.Join(without, " OR ") + ")"
}

// talk is a match in what was said alone, where that is asked for.
func (s *search) talk(match string) string {
	if s.query.TalkOnly {
		return "{words parts} : (" + match + ")"
	}
	return match
}

// rowids asks the index. All of them come as one text, which costs a fraction of
// a row each.
func (s *search) rowids(ctx context.Context, query string, args ...any) (list []int64, err error) {
	rows, err := short(ctx, s.conn, `SELECT group_concat(rowid, ' ') FROM (`+query+`)`, args...)
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
			rowid, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return nil, err
			}
			list = append(list, rowid)
		}
	}
	return list, rows.Err()
}

// common gives what two sorted lists both have.
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
